//! Models of address spaces: what two CPUs do at once, in every order, on the smallest spaces that show it.
//! `loom_fault.rs` belongs to `fault`, whose proofs it breaks.

mod loom_collapse;
mod loom_fork;
mod loom_huge;
mod loom_huge_zero;
mod loom_object_huge;
mod loom_pairs;
mod loom_parts;
mod loom_pending;
mod loom_pin;
mod loom_pin_fast;
mod loom_pin_range;
mod loom_pool;
mod loom_pool_cow;
mod loom_pool_shared;
mod loom_private;
mod loom_published;
mod loom_remap;
mod loom_rmap;
mod loom_shared_huge;
mod loom_sizes;
mod loom_spaces;
mod loom_truncate;
mod loom_walk_accessed;
mod loom_walk_address;
mod loom_walk_huge;
mod loom_walk_word;
mod loom_write_back;
pub(in crate::space) mod world;
