//! Random calls against models, by kind of memory.

mod huge;
mod pool;
mod shared_huge;
