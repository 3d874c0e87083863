//! munmap, by kind of memory.

mod base;
mod large;
mod shared_frames;
