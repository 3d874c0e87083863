//! Floor 3: work described as a value, cut into chunks, done by the caller and by helpers.
//!
//! A [`Job`] describes work over a range; [`WorkerPool::run`] does it. An [`Ordered`] queue is for many items
//! that are finished in the order in which they came. docs/design/jobs.md says how they work, and when to use
//! which.
//!
//! ```
//! use interleaf::work::{Chunk, WorkerPool, Failed, Job};
//! use interleaf::machine::Machine;
//!
//! # struct NoMemory;
//! # trait Table: Sync { fn fill(&self, _: u64) -> Result<(), NoMemory>; fn empty(&self, _: u64); }
//! /// Fills the slots of a table, or none; cancelled when `killed` returns true.
//! fn populate<M: Machine>(
//!     workers: &WorkerPool<'_, M>,
//!     table: &impl Table,
//!     slots: u64,
//!     killed: &(dyn Fn() -> bool + Sync),
//! ) -> Result<(), Failed<NoMemory>> {
//!     let undo = |slots: core::ops::Range<u64>| slots.for_each(|slot| table.empty(slot));
//!     let job = Job::new(0..slots, |chunk: &Chunk<'_>| {
//!         chunk.range().try_for_each(|slot| {
//!             table.fill(slot)?;
//!             chunk.done_to(slot + 1);
//!             Ok(())
//!         })
//!     });
//!     workers.run(&job.align(512).min_chunk(512).undo(&undo).stop_if(killed)).map(|_| ())
//! }
//! ```

mod broken_off;
mod deque;
mod dispatch;
mod job;
mod ordered;
mod partition;
mod pool;
mod ring;
mod run;
#[cfg(test)]
pub(crate) mod tests;

pub use dispatch::PollLimit;
pub use job::{Chunk, Failed, Job, Spent};
pub use ordered::{Finished, NotStarted, Ordered};
pub use pool::WorkerPool;
