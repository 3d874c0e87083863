//! munmap, by kind of memory.

mod base;
mod huge;
mod large;
mod object;
mod pool;
mod shared_frames;
mod shared_huge;
