//! mremap.

mod base;
mod huge;
mod model;
mod object;
mod pfn;
mod pool;
mod races;
mod refused;
