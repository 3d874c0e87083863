//! Walks without a lock, by kind of memory.

mod accessed;
mod address;
mod call_chain;
mod huge;
