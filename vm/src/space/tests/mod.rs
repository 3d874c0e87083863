//! Spaces from outside: what they are made with, and how CPUs load them.

mod activate;
mod copy;
mod fork;
mod garbage;
mod huge;
mod layout;
mod many_cpus;
mod objects;
mod odd;
pub(super) mod pin;
mod pin_fast;
mod pin_random;
mod pool;
mod preempted_helper;
mod progress;
mod refusal;
mod rmap;
mod rmap_spaces;
mod rmap_trees;
mod spaces;
mod start;
mod unmap_shared;
mod visitors;
mod walk_accessed;
mod walk_address;
mod walk_call_chain;
pub(super) mod world;
