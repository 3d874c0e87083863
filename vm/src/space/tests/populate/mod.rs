//! Populating, by kind of memory.

mod base;
mod huge;
mod object;
mod pool;
