//! Lists of unhooked frames, which several workers free after one flush.
//!
//! ```text
//!   first ─► F9 ─► F8 ─► F7        next: the frames of one list, which one worker has unhooked
//!            │ prev
//!            ▼
//!            F3 ─► F2 ─► F1        prev: the next list, noted in the frame that leads a list
//! ```
//!
//! So they take no memory: a worker that ends its part of an edit adds its list by one store, and a worker
//! that frees takes a whole list.

use super::Flushed;
use super::unhooked::GatherBatch;
use crate::frame::Memory;
use crate::machine::Machine;
use crate::sync::{SpinLock, lockdep};
use crate::units::Pfn;
use crate::work::{Chunk, Job, WorkerPool};
use core::convert::Infallible;

/// Exclusive frames that were unhooked and wait for one flush, as lists.
#[derive(Debug, Default)]
pub(crate) struct UnhookedLists {
    /// The frame that leads the list added last.
    first: Option<Pfn>,
}

impl UnhookedLists {
    /// Whether there is no list.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds the frames of a batch as a list. False, and no change, where it holds something else too.
    pub fn add<M: Machine>(&mut self, memory: &Memory<'_, M>, batch: &mut GatherBatch) -> bool {
        if !batch.is_one_list() {
            return false;
        }
        if let Some(leader) = batch.take_list() {
            memory.meta_of(leader).set_prev(self.first);
            if !mutant!("parts.list-lost") {
                self.first = Some(leader);
            }
        }
        true
    }

    /// Takes a list out: the frame that leads it.
    fn pop<M: Machine>(&mut self, memory: &Memory<'_, M>) -> Option<Pfn> {
        let leader = self.first?;
        self.first = memory.meta_of(leader).links().prev;
        Some(leader)
    }

    /// Number of lists.
    fn nr<M: Machine>(&self, memory: &Memory<'_, M>) -> u64 {
        let leaders = core::iter::successors(self.first, |&leader| memory.meta_of(leader).links().prev);
        leaders.count() as u64
    }

    /// Frees all frames, with helpers if there are any. They were flushed.
    pub fn free<M: Machine>(
        self,
        memory: &Memory<'_, M>,
        workers: Option<&WorkerPool<'_, M>>,
        _flushed: &Flushed,
    ) {
        let nr = self.nr(memory);
        let lists: SpinLock<Self, M::Cpu, { lockdep::GATHER.0 }> = SpinLock::new(self);
        let free_next = || {
            let leader = lists.lock().pop(memory);
            GatherBatch::free_exclusive(memory, leader);
            leader.is_some()
        };
        if let Some(workers) = workers {
            let job = Job::new(0..nr, |chunk: &Chunk<'_>| {
                for _ in chunk.range() {
                    free_next();
                }
                Ok::<(), Infallible>(())
            });
            // Lists that a helper that panicked left are freed below.
            let _done = workers.run(&job);
        }
        while free_next() {}
    }
}
