//! The reverse map, by kind of memory.

mod base;
mod spaces;
mod trees;
