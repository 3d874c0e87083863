//! Copies into a space and out of it, forced ones too, by kind of memory.

mod base;
mod huge;
mod object;
mod pool;
