//! Spaces from outside. A call has a folder, and in it a file for each kind of memory that it meets; what is
//! of no one call has a file of its own.
//!
//! | file | memory |
//! |---|---|
//! | `base` | base pages, most of them private |
//! | `huge` | transparent huge pages, the huge zero page, and mTHP folios |
//! | `object` | objects, shared and private |
//! | `shared_huge` | huge pages of shared memory |
//! | `pool` | the hugetlb pool |
//!
//! `world` has the spaces of each kind, and what tests do with their pages. Other files of a call are about a
//! way that it takes.

mod activate;
mod brk;
mod collapse;
mod copy;
mod exit;
mod fault;
mod flush;
mod fork;
mod garbage;
mod inspect;
mod layout;
mod madvise;
mod many_cpus;
mod map;
mod markers;
mod mbind;
mod mishaps;
mod odd;
mod pin;
mod populate;
mod preempted_helper;
mod prefetch;
mod progress;
mod protect;
mod random;
mod refusal;
mod remap;
mod resize_hugetlb;
mod rmap;
mod spaces;
mod start;
mod truncate;
mod unmap;
mod unmap_hugetlb_sharers;
mod visitors;
mod walk;
pub(super) mod world;
mod write_back;
