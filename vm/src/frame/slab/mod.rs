//! Slab pools: typed, fallible, per-CPU caches of small objects in single frames.
//!
//! ```text
//!   alloc ──► CPU's stack ──► partial slabs ──► spare slab ──► a frame
//!   free  ──► CPU's stack ──► its slab, and when that is empty: spare, or the frame is freed
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `pool` | [`SlabPool`], and with its memory, [`BoundSlabPool`]: the stacks, refill, spill and drain |
//! | `slabs` | slabs: frames divided into objects, and the lists of them |
//! | `words` | the memory of the stacks |
//!
//! A CPU's stack holds the garbage of three epochs, as much as [`GarbageLimits`](crate::sync::GarbageLimits)
//! allow: all of it comes back at once where other CPUs move the epoch meanwhile. So a CPU
//! that replaces objects at a steady rate takes them from its stack and frees them to it; the slabs, which
//! other CPUs write too, see batches of them only when the rate changes.
//!
//! A frame divided into objects is a slab; its header is its frame's record, so objects lie from the first
//! byte on, and an object's slab is found from its address. Free objects are words on the same stacks as
//! frames: physical addresses, which another CPU drains when it finds no memory elsewhere.
//!
//! The shared part of a pool lies in memory of its own and never moves, so its address can be kept beside a
//! retired object: it is the tag that [`Rcu`](crate::sync::Rcu) keeps, and how
//! [`Memory`](crate::frame::Memory) finds the pool again.
//!
//! | lock | rank | guards |
//! |---|---|---|
//! | `drain` | `lockdep::DRAIN` | the right to revoke CPUs' stacks |
//! | `slabs` | `lockdep::SLAB` | the lists, the headers of its slabs, links in free objects |

mod pool;
mod slabs;
mod words;

pub use pool::{BoundSlabPool, SlabPool};
