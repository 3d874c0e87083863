//! Copies of huge pages that several spaces share.
//!
//! ```text
//!   take_for_copy ─► UnfilledCopy ── fill(page that is shared) ─► HugetlbCopy ── into_parts ─► a huge leaf
//! ```
//!
//! A copy counts as *under way* from the moment its huge page is taken until the mapping of the page that was
//! copied is back. Of two spaces that store to a page which they share, where the pool has one page, the
//! first takes that, and leaves the other space the old one: a store that finds the pool empty waits for
//! copies under way before it gives up. None begins while the pool is empty, so that ends. (Linux: both
//! faults take one mutex of the table of hugetlb faults.)

use super::{HugetlbFolio, HugetlbPool, HugetlbTake, NotTaken};
use crate::frame::{FramePlacement, FrameRef, Memory};
use crate::machine::{Cpu, Machine};
use crate::units::{PageSize, Pfn};
use crate::work::WorkerPool;
use core::fmt;

/// A huge page that was taken for a copy.
pub(crate) struct UnfilledCopy<'m, M: Machine> {
    folio: HugetlbFolio<'m, M>,
    under_way: CopyUnderWay<'m, M>,
}

/// A huge page that holds a copy of one that several spaces share. Dropping it gives it back.
pub(crate) struct HugetlbCopy<'m, M: Machine> {
    // Dropped in this order: the copy is under way until the reference is put.
    folio: HugetlbFolio<'m, M>,
    source: FrameRef<'m, M>,
    under_way: CopyUnderWay<'m, M>,
}

/// What a copy has of the page that was copied: kept until the mapping of that is back.
#[must_use = "the copy is under way until this is dropped"]
pub(crate) struct CopiedFrom<'m, M: Machine> {
    _source: FrameRef<'m, M>,
    _under_way: CopyUnderWay<'m, M>,
}

/// Counts a copy under way, until it is dropped.
struct CopyUnderWay<'m, M: Machine> {
    /// Invariant: one of the `copies` of the pool of this size is this value's.
    memory: &'m Memory<'m, M>,
    size: PageSize,
}

impl<'m, M: Machine> HugetlbPool<'m, M> {
    /// Takes a huge page that is available, for a copy. Waits as [`take`](Self::take), and for copies that
    /// are under way: so this is called with no lock held, and outside of any read section.
    ///
    /// # Errors
    /// [`NotTaken::Empty`].
    pub(crate) fn take_for_copy(
        self,
        size: PageSize,
        placement: FramePlacement,
    ) -> Result<UnfilledCopy<'m, M>, NotTaken> {
        loop {
            match self.try_take_for_copy(size, placement) {
                Err(NotTaken::Away) => M::Cpu::relax(),
                result => return result,
            }
        }
    }

    fn try_take_for_copy(
        self,
        size: PageSize,
        placement: FramePlacement,
    ) -> Result<UnfilledCopy<'m, M>, NotTaken> {
        let (mut state, index) = self.lock(size).ok_or(NotTaken::Empty)?;
        let taken = self.take_locked(&mut state, (size, index), placement, HugetlbTake::Available);
        let may_be_left = state.copies > 0 && !mutant!("pool.copies-not-waited-for");
        let folio = taken.map_err(|not| if may_be_left { NotTaken::Away } else { not })?;
        state.copies += 1;
        state.begun += 1;
        drop(state);
        Ok(UnfilledCopy { folio, under_way: CopyUnderWay { memory: self.memory, size } })
    }
}

impl<'m, M: Machine> UnfilledCopy<'m, M> {
    /// Copies a page of the pool that is shared, and stays so, as it has a reference. By a job where it is
    /// large.
    ///
    /// # Panics
    /// Where it is of another size or memory.
    pub fn fill(self, source: FrameRef<'m, M>, workers: Option<&WorkerPool<'_, M>>) -> HugetlbCopy<'m, M> {
        let Self { mut folio, under_way } = self;
        folio.copy_from(source.user_frame(), workers);
        HugetlbCopy { folio, source, under_way }
    }
}

impl<'m, M: Machine> HugetlbCopy<'m, M> {
    /// Whether it is a copy of the page that begins at `pfn`. That has not changed since, where it is shared.
    pub fn is_of(&self, pfn: Pfn) -> bool {
        self.source.pfn() == pfn
    }

    /// The page, and what it has of the page that was copied.
    pub fn into_parts(self) -> (HugetlbFolio<'m, M>, CopiedFrom<'m, M>) {
        let Self { folio, source, under_way } = self;
        (folio, CopiedFrom { _source: source, _under_way: under_way })
    }
}

impl<M: Machine> Drop for CopyUnderWay<'_, M> {
    fn drop(&mut self) {
        if let Some((mut state, _)) = self.memory.hugetlb().lock(self.size) {
            state.copies -= 1;
        }
    }
}

impl<M: Machine> fmt::Debug for HugetlbCopy<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with a copy of {:?}", self.folio, self.source)
    }
}
