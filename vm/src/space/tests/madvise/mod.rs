//! madvise, by kind of memory.

mod base;
mod huge;
mod large;
mod pool;
mod shared_huge;
