//! Tests of faults; the models run faults against unmap, and two CPUs of one space.

#[cfg(not(loom))]
mod attempt;
#[cfg(not(loom))]
mod backing;
#[cfg(not(loom))]
mod decide;
#[cfg(not(loom))]
mod identity;
#[cfg(not(loom))]
mod install;
#[cfg(not(loom))]
mod kinds;
#[cfg(not(loom))]
mod known_zero;
#[cfg(loom)]
mod loom_collapse;
#[cfg(loom)]
mod loom_fault;
#[cfg(loom)]
mod loom_fork;
#[cfg(loom)]
mod loom_huge;
#[cfg(loom)]
mod loom_huge_zero;
#[cfg(loom)]
mod loom_object_huge;
#[cfg(loom)]
mod loom_pairs;
#[cfg(loom)]
mod loom_parts;
#[cfg(loom)]
mod loom_pending;
#[cfg(loom)]
mod loom_pin;
#[cfg(loom)]
mod loom_pin_fast;
#[cfg(loom)]
mod loom_pin_range;
#[cfg(loom)]
mod loom_pool;
#[cfg(loom)]
mod loom_pool_cow;
#[cfg(loom)]
mod loom_pool_shared;
#[cfg(loom)]
mod loom_private;
#[cfg(loom)]
mod loom_published;
#[cfg(loom)]
mod loom_rmap;
#[cfg(loom)]
mod loom_shared_huge;
#[cfg(loom)]
mod loom_sizes;
#[cfg(loom)]
mod loom_spaces;
#[cfg(loom)]
mod loom_walk_accessed;
#[cfg(loom)]
mod loom_walk_address;
#[cfg(loom)]
mod loom_walk_huge;
#[cfg(loom)]
mod loom_walk_word;
#[cfg(not(loom))]
mod pool_copy;
#[cfg(loom)]
mod world;
