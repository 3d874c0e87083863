//! The end of a space: no CPU translates through it any more, so frames are freed as their entries are
//! cleared.
//!
//! Every CPU has left the space, and with it every TLB its translations (protocol P7: a CPU that is not in
//! the mask starts empty when it comes, and none comes). So the flush that frees wait for elsewhere has
//! no CPU to reach: each part asserts that the mask is empty still, and frees; a frame that others may map
//! too is put as its entry is cleared. The one flush of the end is that of the gather which takes the
//! tables. Records are read again while they are in the caches, which a flush of all at once would not
//! allow.

use super::SpaceTlb;
use crate::frame::{Flushed, GatherBatch, IfShared, Memory, Unhooked};
use crate::machine::{FlushRange, Machine};
use crate::sync::Rcu;
use crate::units::VpnRange;
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
    /// As the whole space was found to be flushed when the part began, or has freed last, which is after each
    /// table. No CPU loads it later (see `assert_loaded_nowhere`), so what is cleared since is flushed too.
    flushed: Flushed,
}

impl<'a, 'm, M: Machine> FullGather<'a, 'm, M> {
    /// The caller has the space to itself, and clears all of its `pages`: what copies translations is told so
    /// before anything is free.
    pub fn new(
        memory: &'a Memory<'m, M>,
        rcu: &'a Rcu<'a, M::Cpu>,
        space: &'a SpaceTlb<M::Cpu>,
        pages: VpnRange,
    ) -> Self {
        if !mutant!("exit.copies-not-told") {
            memory.machine().note_flush(space.id(), FlushRange::of(pages).unlocked());
        }
        Self { memory, rcu, space }
    }

    /// Does a part, on any CPU. What it clears is freed when this returns.
    ///
    /// # Panics
    /// Where a CPU has the space loaded: then nothing is cleared, or what was cleared is leaked.
    pub fn part(&self, edit: impl FnOnce(&mut FullPart<'_, 'a, 'm, M>)) {
        let mut batch = GatherBatch::default();
        let flushed = self.free(&mut batch);
        let mut part = FullPart { whole: self, batch, flushed };
        edit(&mut part);
        part.free();
    }

    /// Frees what a batch holds.
    fn free(&self, batch: &mut GatherBatch) -> Flushed {
        batch.free_after(self.memory, self.rcu, || self.assert_loaded_nowhere())
    }

    /// Asked before anything of the space is freed. No CPU loads it later: the end of a space has it by
    /// `&mut`, and a CPU loads a space that it has borrowed.
    #[inline(always)]
    fn assert_loaded_nowhere(&self) {
        assert!(self.space.is_loaded_nowhere(), "a space ends while a CPU has it loaded");
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

    /// What becomes of a leaf of a base page whose frame others may map too: its mapping is put at once. Not
    /// asked for each: whether a space is loaded takes a look at the words of all CPUs.
    #[inline(always)]
    pub fn if_shared(&mut self) -> IfShared<'_> {
        IfShared::Put(&self.flushed)
    }

    /// Frees what was added.
    pub fn free(&mut self) {
        self.flushed = self.whole.free(&mut self.batch);
    }
}

impl<M: Machine> fmt::Debug for FullGather<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the end of space {}", self.space.id())
    }
}
