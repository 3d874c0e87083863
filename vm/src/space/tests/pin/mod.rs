//! Pins of pages for devices, by kind of memory.

mod base;
mod fast;
mod huge;
mod object;
mod pool;
mod random;
mod range;
mod shared_huge;
