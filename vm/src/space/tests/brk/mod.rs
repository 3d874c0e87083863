//! brk, by kind of memory.

mod huge;
mod pool;
