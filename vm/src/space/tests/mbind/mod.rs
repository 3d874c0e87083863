//! mbind, by kind of memory.

mod base;
