//! The end of a space: no CPU translates through it any more, so frames are freed as their entries are
//! cleared.
//!
//! Every CPU has left the space, and with it every TLB its translations (protocol P7: a CPU that is not in
//! the mask starts empty when it comes, and none comes). So the flush that frees wait for elsewhere has
//! nobody to reach: each part asserts that the mask is empty still, and frees. The one flush of the end is
//! that of the gather which takes the tables. Records are read again while they are in the caches, which a
//! flush of all at once would not allow.

use super::SpaceTlb;
use crate::frame::{GatherBatch, Memory, Unhooked};
use crate::machine::Machine;
use crate::sync::Rcu;
use core::fmt;

/// The clearing of all entries of a space that no CPU has loaded, nor will load.
pub(crate) struct FullGather<'a, 'm, M: Machine> {
    memory: &'a Memory<'m, M>,
    rcu: &'a Rcu<'a, M::Cpu>,
    space: &'a SpaceTlb<M::Cpu>,
}

/// What a worker has cleared in its part.
pub(crate) struct FullPart<'p, 'a, 'm, M: Machine> {
    whole: &'p FullGather<'a, 'm, M>,
    batch: GatherBatch,
}

impl<'a, 'm, M: Machine> FullGather<'a, 'm, M> {
    /// The caller has the space to itself.
    pub fn new(memory: &'a Memory<'m, M>, rcu: &'a Rcu<'a, M::Cpu>, space: &'a SpaceTlb<M::Cpu>) -> Self {
        Self { memory, rcu, space }
    }

    /// Does a part, on any CPU. What it clears is freed when this returns.
    ///
    /// # Panics
    /// Where a CPU has the space loaded: then what was cleared is leaked.
    pub fn part(&self, edit: impl FnOnce(&mut FullPart<'_, 'a, 'm, M>)) {
        let mut part = FullPart { whole: self, batch: GatherBatch::default() };
        edit(&mut part);
        part.free();
    }
}

impl<M: Machine> FullPart<'_, '_, '_, M> {
    /// Adds an unhooked translation.
    pub fn add(&mut self, unhooked: Unhooked) {
        if self.batch.is_full() {
            self.free();
        }
        self.batch.add(self.whole.memory, unhooked);
    }

    fn free(&mut self) {
        let FullGather { memory, rcu, space } = self.whole;
        self.batch.free_after(memory, rcu, || {
            assert!(space.is_loaded_nowhere(), "a space ends while a CPU has it loaded");
        });
    }
}

impl<M: Machine> fmt::Debug for FullGather<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the end of space {}", self.space.id())
    }
}
