//! madvise, by kind of memory.

mod base;
mod large;
