//! What flushes tell CPUs and devices, by kind of memory.

mod huge;
mod leaf;
mod pool;
mod shared_huge;
