//! The end of a space, by kind of memory.

mod large;
mod pool;
