//! Memory that runs out, at each allocation of each call, by kind of memory.

mod huge;
mod object;
mod pool;
mod shared_huge;
