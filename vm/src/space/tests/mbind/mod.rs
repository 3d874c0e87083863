//! mbind, by kind of memory.

mod base;
mod huge;
mod pool;
