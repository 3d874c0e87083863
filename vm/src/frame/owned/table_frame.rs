//! Table pages owned as values: before they are linked, and after they were detached.

use crate::frame::{FrameMeta, Init, Memory};
use crate::machine::Machine;
use crate::sync::{Rcu, UniqueId};
use crate::units::Pfn;
use core::fmt;
use core::mem::ManuallyDrop;

/// An empty table that no walk reaches. Dropping it frees the frame.
pub struct TableFrame<'m, M: Machine> {
    /// Invariant: the record of the frame, of `memory`, says *table* and not *attached*; only this value owns
    /// it; all its words are zero.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
}

/// A table that was detached, and that walks may still be in. [`retire`](Self::retire) frees it after them;
/// dropping it leaks the frame.
#[must_use = "a table that is not retired is leaked"]
pub struct DetachedTable<'m, M: Machine> {
    /// Invariant: the frame was an attached table of `memory` and was detached once, for this value.
    memory: &'m Memory<'m, M>,
    pfn: Pfn,
    /// The contents of its words, which do not change any more.
    init: Init,
    /// The RCU whose readers may be in it.
    rcu: Option<UniqueId>,
}

impl<'m, M: Machine> TableFrame<'m, M> {
    /// The table, which was just made of a zeroed frame of `memory`.
    pub(super) fn new(memory: &'m Memory<'m, M>, pfn: Pfn) -> Self {
        Self { memory, pfn }
    }

    /// The memory that the frame is of.
    pub(crate) fn memory(&self) -> &'m Memory<'m, M> {
        self.memory
    }

    /// The number of the frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Gives the table, of `memory`, up for good: its record stays as it is, so that it cannot be locked.
    #[track_caller]
    pub(in crate::frame) fn keep(self, memory: &Memory<'_, M>) -> Pfn {
        assert!(memory.is(self.memory), "a table of another memory");
        ManuallyDrop::new(self).pfn
    }

    /// Marks the table as attached to a structure of `memory`, which the frame must be of. From now on it
    /// goes by way of [`Memory::detach_table`] only.
    #[track_caller]
    pub(crate) fn attach(self, memory: &Memory<'_, M>) -> Pfn {
        assert!(memory.is(self.memory), "a table of another memory");
        let attached = self.memory.meta_of(self.pfn).attach();
        debug_assert!(attached, "{:?} was attached already", self.pfn);
        ManuallyDrop::new(self).pfn
    }
}

impl<'m, M: Machine> DetachedTable<'m, M> {
    /// The number of the frame.
    pub fn pfn(&self) -> Pfn {
        self.pfn
    }

    /// Frees the table once no lockless walker can hold it. May wait for readers.
    ///
    /// # Panics
    /// Where `rcu` is not the one that the walkers use.
    pub fn retire(self, rcu: &Rcu<M::Cpu>) {
        self.assert_of(rcu);
        self.memory.retire_table(rcu, self.pfn, self.init);
    }

    /// Frees the table at once.
    ///
    /// # Safety
    /// No walk is in the table, and none can reach it.
    pub(crate) unsafe fn free_unwalked(self) {
        self.memory.free_table(self.pfn, self.init);
    }

    /// Asserts that `rcu` is the one that walkers use.
    #[track_caller]
    pub(crate) fn assert_of(&self, rcu: &Rcu<M::Cpu>) {
        assert!(self.rcu == Some(rcu.id()), "a table is retired to another RCU than its readers'");
    }

    /// Gives the table to the gather that retires it.
    pub(super) fn into_parts(self) -> (Pfn, Init) {
        (self.pfn, self.init)
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Notes which parts of a table that is not linked yet are in use.
    pub(crate) fn note_used_parts(&self, table: &TableFrame<'_, M>, used: u32) {
        table.memory.meta_of(table.pfn).set_used_parts(used);
    }

    /// Detaches a table: clears *attached*, under the table's lock if it has one. `None` where it was not
    /// attached.
    ///
    /// # Safety
    /// 1. Before the result is used, the table is unlinked: no walk that begins later finds it, and those
    ///    under way are in read sections of `rcu`.
    /// 2. `init` is the contents of its words from then on: a table whose slots are all absent is zero. So is
    ///    one with slots that are pending, or a table of base pages with leaves, in parts that its record
    ///    notes as used, once it was in a gather.
    pub(crate) unsafe fn detach_table(
        &self,
        pfn: Pfn,
        init: Init,
        rcu: Option<UniqueId>,
    ) -> Option<DetachedTable<'_, M>> {
        let detached = self.meta(pfn).is_some_and(FrameMeta::detach);
        detached.then_some(DetachedTable { memory: self, pfn, init, rcu })
    }
}

impl<M: Machine> Drop for TableFrame<'_, M> {
    fn drop(&mut self) {
        let relinquished = self.memory.meta_of(self.pfn).relinquish();
        debug_assert!(relinquished, "{:?} was attached", self.pfn);
        self.memory.free_frame(self.pfn, Init::Zeroed);
    }
}

impl<M: Machine> fmt::Debug for TableFrame<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "empty table {:?}", self.pfn)
    }
}

impl<M: Machine> fmt::Debug for DetachedTable<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "detached table {:?}", self.pfn)
    }
}
