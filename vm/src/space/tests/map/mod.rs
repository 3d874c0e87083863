//! mmap, by kind of memory.

mod base;
mod giant;
mod given;
mod huge;
mod object;
mod objects;
mod pool;
mod shared_huge;
