//! fork, and what parent and child see afterwards, by kind of memory.
//! `leaf.rs` belongs to the code that it tests.

mod base;
mod huge;
mod huge_parts;
mod object;
mod pool;
mod pool_cow;
mod zero;
