//! The reverse map, by kind of memory.

mod base;
mod huge;
mod object;
mod spaces;
mod trees;
