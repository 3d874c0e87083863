//! Populating, by kind of memory.

mod base;
