//! mprotect, by kind of memory.

mod base;
