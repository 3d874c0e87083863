//! Pins of pages for devices, by kind of memory.

mod base;
mod fast;
mod random;
mod range;
