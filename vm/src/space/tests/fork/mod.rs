//! fork, and what parent and child see afterwards, by kind of memory.
//! `leaf.rs` belongs to the code that it tests.

mod base;
