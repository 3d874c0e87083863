//! mmap, by kind of memory.

mod base;
mod given;
mod objects;
