//! Unmaps by the owner of a reservation: of a page that children share with it, from these.

use super::{HugetlbPool, HugetlbTake};
use crate::frame::{FrameRef, Memory};
use crate::machine::Machine;
use crate::units::PageSize;

/// References to a page that several spaces share: that of all entries, and the caller's.
const KNOWN: u32 = 2;

/// A call that unmaps a page from children, until this is dropped: it has a reference to the page meanwhile.
pub(crate) struct OwnerUnmap<'m, M: Machine> {
    /// Invariant: one of the `owner_unmaps` of the pool of this size is this value's.
    memory: &'m Memory<'m, M>,
    size: PageSize,
    /// Copies and such calls that had begun with this one.
    begun: u64,
    /// Whether none of them was under way.
    was_alone: bool,
}

impl<'m, M: Machine> OwnerUnmap<'m, M> {
    /// Begins, before the caller takes the reference. `None` for base pages.
    pub fn begin(memory: &'m Memory<'m, M>, size: PageSize) -> Option<Self> {
        let (mut state, _) = memory.hugetlb().lock(size)?;
        let was_alone = (state.copies, state.owner_unmaps) == (0, 0);
        state.owner_unmaps += 1;
        state.begun += 1;
        Some(Self { memory, size, begun: state.begun, was_alone })
    }

    /// Whether the page has another reference than the caller's, one that is not held by a call of the
    /// library that copies a page or unmaps one: all of these put theirs soon.
    pub fn is_kept_by_others(&self, page: &FrameRef<'_, M>) -> bool {
        let meta = self.memory.meta_of(page.pfn());
        meta.state().refcount() > KNOWN && self.is_alone() && !mutant!("pool.taken-though-kept")
    }

    /// Whether no other copy and no other such call was under way since this one has begun.
    fn is_alone(&self) -> bool {
        let state = self.memory.hugetlb().lock(self.size);
        self.was_alone && state.is_some_and(|(state, _)| state.begun == self.begun)
    }
}

impl<M: Machine> Drop for OwnerUnmap<'_, M> {
    fn drop(&mut self) {
        if let Some((mut state, _)) = self.memory.hugetlb().lock(self.size) {
            state.owner_unmaps -= 1;
        }
    }
}

impl<M: Machine> HugetlbPool<'_, M> {
    /// Whether the pool has a page that can be taken by this right, or will have it once what is on its way
    /// back is there. Stale at once.
    pub(crate) fn may_take(self, size: PageSize, take: HugetlbTake) -> bool {
        self.lock(size).is_some_and(|(state, _)| match take {
            HugetlbTake::Reserved => state.free + state.away > 0,
            HugetlbTake::Available => state.available() > 0,
        })
    }
}
