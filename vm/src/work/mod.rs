//! Floor 3: work described as a value, cut into chunks, done by the caller and by helpers.
//!
//! A [`Job`] describes the work: a range, how it may be cut, how many helpers may join and of which nodes,
//! the function for a chunk, and the function that undoes it. [`WorkerPool::run`] returns when the job is
//! done, or the reason why it is not. An [`Ordered`] queue is for many items that are finished in the order
//! in which they came.
//!
//! ```
//! use interleaf::work::{Chunk, WorkerPool, Failed, Job};
//! use interleaf::machine::Machine;
//!
//! # struct NoMemory;
//! # struct Table;
//! # impl Table {
//! #     fn fill(&self, _: u64) -> Result<(), NoMemory> { Ok(()) }
//! #     fn empty(&self, _: u64) {}
//! # }
//! /// Fills the slots of a table, or none; cancelled when `killed` returns true.
//! fn populate<M: Machine>(
//!     workers: &WorkerPool<'_, M>,
//!     table: &Table,
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
//!
//! docs/design/jobs.md says how it works, and when to use which kind.
//!
//! | file | holds |
//! |---|---|
//! | `job` | [`Job`], [`Chunk`], and the results of a job |
//! | `pool` | [`WorkerPool`]: the helpers of a machine, and `run` |
//! | `partition` | how a job is divided: grains and chunk sizes |
//! | `run` | the state of a job while it runs |
//! | `deque` | the grains that have not begun, by node |
//! | `undo` | the ranges that were done |
//! | `ordered`, `ring` | [`Ordered`] queues, and their records |
//! | `dispatch` | how helpers find work |

mod deque;
mod dispatch;
mod job;
mod ordered;
mod partition;
mod pool;
mod ring;
mod run;
#[cfg(test)]
mod tests;
mod undo;

pub use dispatch::PollLimit;
pub use job::{Chunk, Failed, Job, Spent};
pub use ordered::{Finished, NotStarted, Ordered};
pub use pool::WorkerPool;
