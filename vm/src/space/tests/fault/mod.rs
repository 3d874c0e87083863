//! Faults, by kind of memory.

mod around;
mod beyond;
mod fragmented;
mod huge;
mod object;
mod pager;
mod pager_waits;
mod pool;
mod shared_huge;
mod sizes;
mod sizes_lack;
mod zero;
mod zero_table;
