//! What observers see of a space, by kind of memory.

mod object;
mod resident;
mod shared_huge;
