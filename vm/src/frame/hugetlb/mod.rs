//! Hugetlb: huge pages that are taken from the zones beforehand, and kept. (Linux: hugetlbfs.)
//!
//! ```text
//!   zones ── resize ──► free ── take ──► HugetlbFolio ── into_mapped_at ──► a huge leaf
//!     ▲                  ▲                   │ dropped                     │ unhook, flush
//!     └──── resize ──────┤◄──────────────────┘                             │
//!                        └◄──── the last reference is put (a pin's, too) ──┘
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`HugetlbPool`]: all changes of the counts |
//! | `counts`, `list` | the counts; the free folios of a node |
//! | `folio` | [`HugetlbFolio`]: a huge page that was taken, and is not mapped yet |
//! | `copy` | [`HugetlbCopy`]: one that holds a copy of what several spaces share |
//! | `reserve` | [`HugetlbReservation`]: pages that are set aside, on the way to or from what counts them |
//! | `resize` | how many huge pages there are |
//! | `owner_unmap` | [`OwnerUnmap`]: the owner of a reservation unmaps a page from children |
//!
//! # Counts
//!
//! There is a pool for each size. All its numbers change under its lock, and huge faults are rare.
//!
//! | count | huge pages |
//! |---|---|
//! | `total` | that the pool has, in use or not |
//! | `free` | in the zones' lists |
//! | `reserved` | that are kept: as many as there are entries marked *reserved*, and as objects count |
//! | `away` | that come back by themselves: taken for one of those, or dropped by an entry, not back yet |
//! | `astray` | that were dropped by an entry, and are kept by references: these may last |
//! | `surplus` | that leave the pool when they come back: it was made smaller than what is in use |
//! | `copies` | that were taken for copies of shared pages, each until the old page's mapping is back |
//! | `owner_unmaps` | none: calls that unmap a page from children; `begun` counts these and copies, ever |
//!
//! The rule is *reserved ≤ free + away + astray*; what *free + away* have beyond *reserved* is *available* to
//! mappings that set nothing aside, and to be reserved. So a fault that takes a huge page for a reserved
//! entry gets one: where none is free at this moment, one is on its way back, and is waited for. But for what
//! has gone astray: a caller has taken a reference by number between the change of the entry and its flush.
//! How long it is kept is not for the pool to say, so nothing waits for it but one grace period. A fault that
//! prepares a huge page changes no reserve before it installs it, under the lock of the entry's table; so it
//! does not matter what becomes of the entry meanwhile.

mod copy;
mod counts;
mod folio;
mod list;
mod owner_unmap;
mod reserve;
mod resize;

pub(crate) use copy::HugetlbCopy;
pub use counts::HugetlbCounts;
pub(in crate::frame) use counts::HugetlbPools;
pub(crate) use folio::{HugetlbFolio, HugetlbTake};
pub(in crate::frame) use list::HugetlbList;
pub(crate) use owner_unmap::OwnerUnmap;
pub(crate) use reserve::HugetlbReservation;

use super::{FrameMeta, FramePlacement, FrameState, Init, Memory, Zone};
use crate::machine::{Cpu, Machine};
use crate::sync::SpinGuard;
use crate::units::{Order, PageSize, Pfn};
use core::fmt;
use counts::HugetlbState;

/// As what a folio was counted that comes back.
#[derive(Clone, Copy, Debug)]
enum CameFrom {
    /// In use: in no count.
    Use,
    /// As one that comes back by itself.
    Away,
    /// As one that references have kept.
    Astray,
}

/// Why no huge page was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// There is none, or none where it is wanted.
    Empty,
    /// None is free at this moment, and one is on its way back; or another space is copying a page, and
    /// perhaps leaves it to the caller.
    Away,
    /// One was reserved, and references keep the page that was to come back for it.
    Astray,
    /// None is free or on its way back, though one was reserved: it has just been used, by the entry
    /// or the thread that changed it. The caller looks at the entry again.
    Kept,
}

/// The pool of a size: `None` for base pages, which have none.
const fn index_of(size: PageSize) -> Option<usize> {
    match size {
        PageSize::Base => None,
        PageSize::Huge => Some(0),
        PageSize::Giant => Some(1),
    }
}

const fn size_of_order(order: Order) -> PageSize {
    if order.0 == PageSize::Giant.order().0 { PageSize::Giant } else { PageSize::Huge }
}

/// The huge pages of hugetlb that a memory has: one pool for each size.
pub struct HugetlbPool<'m, M: Machine> {
    memory: &'m Memory<'m, M>,
}

impl<M: Machine> Memory<'_, M> {
    /// The hugetlb pools.
    #[inline]
    pub fn hugetlb(&self) -> HugetlbPool<'_, M> {
        HugetlbPool { memory: self }
    }
}

impl<'m, M: Machine> HugetlbPool<'m, M> {
    /// What the pool of a size has.
    pub fn counts(self, size: PageSize) -> HugetlbCounts {
        self.lock(size).map_or(HugetlbCounts::default(), |(state, _)| state.told())
    }

    /// Sets `nr` huge pages aside for as many entries. False, and nothing has changed, where fewer are
    /// available.
    fn reserve(self, size: PageSize, nr: u64) -> bool {
        let Some((mut state, _)) = self.lock(size) else { return false };
        let is_there = nr <= state.available() || mutant!("pool.reserved-twice");
        if is_there {
            state.reserved += nr;
        }
        is_there
    }

    /// What was set aside is given up.
    fn unreserve(self, size: PageSize, nr: u64) {
        if let Some((mut state, _)) = self.lock(size)
            && !mutant!("pool.reserve-kept")
        {
            state.reserved -= nr;
        }
        self.shed_surplus(size);
    }

    /// The leaf that mapped the folio at `pfn` has just been replaced, under its table's lock; a huge page is
    /// set aside for the entry again: this one, once it is back, or another one where there is a
    /// reference that may last. False where none is available for that.
    pub(crate) fn reserve_again(self, size: PageSize, pfn: Pfn) -> bool {
        if !self.memory.meta_of(pfn).begin_restore() {
            return self.reserve(size, 1);
        }
        if let Some((mut state, _)) = self.lock(size) {
            state.reserved += 1;
            state.away += 1;
        }
        true
    }

    /// Takes a huge page where it is wanted. Waits for one that is on its way back, which its holder may
    /// bring only once it has got the lock of a space: so this is called with no lock held, and outside of
    /// any read section. The holder is a call of the library: a fault that prepares the page, or an edit
    /// before the end of its flush.
    ///
    /// # Errors
    /// All but [`NotTaken::Away`].
    pub(crate) fn take(
        self,
        size: PageSize,
        placement: FramePlacement,
        take: HugetlbTake,
    ) -> Result<HugetlbFolio<'m, M>, NotTaken> {
        loop {
            match self.try_take(size, placement, take) {
                Err(NotTaken::Away) => M::Cpu::relax(),
                result => return result,
            }
        }
    }

    /// As [`take`](Self::take), and waits for nothing.
    ///
    /// # Errors
    /// Why none was taken.
    pub(crate) fn try_take(
        self,
        size: PageSize,
        placement: FramePlacement,
        take: HugetlbTake,
    ) -> Result<HugetlbFolio<'m, M>, NotTaken> {
        let (mut state, index) = self.lock(size).ok_or(NotTaken::Empty)?;
        self.take_locked(&mut state, (size, index), placement, take)
    }

    /// As [`try_take`](Self::try_take), of a pool that is locked.
    fn take_locked(
        self,
        state: &mut HugetlbState,
        (size, index): (PageSize, usize),
        placement: FramePlacement,
        take: HugetlbTake,
    ) -> Result<HugetlbFolio<'m, M>, NotTaken> {
        if take == HugetlbTake::Available && state.available() == 0 && !mutant!("pool.reserve-taken") {
            return Err(NotTaken::Empty);
        }
        if state.free == 0 {
            let is_kept = take == HugetlbTake::Reserved && !mutant!("pool.kept-taken-for-empty");
            return Err(match is_kept {
                _ if state.away > 0 => NotTaken::Away,
                true if state.astray > 0 => NotTaken::Astray,
                true => NotTaken::Kept,
                false => NotTaken::Empty,
            });
        }
        let lists = self.memory.zones_from(placement).map(|zone| zone.hugetlb(index));
        let pfn = lists.filter_map(|list| self.pop(list)).next().ok_or(NotTaken::Empty)?;
        state.free -= 1;
        if take == HugetlbTake::Reserved {
            state.away += 1;
        }
        Ok(HugetlbFolio::new(self.memory, (pfn, size), self.memory.meta_of(pfn).state().init(), take))
    }

    /// A folio that was taken for a reserved entry is installed there: under the lock of the entry's table.
    fn use_reserve(self, size: PageSize) {
        if let Some((mut state, _)) = self.lock(size) {
            state.away -= 1;
            state.reserved -= 1;
        }
    }

    /// A folio that was taken comes back.
    fn untake(self, (pfn, size): (Pfn, PageSize), init: Init, take: HugetlbTake) {
        let from = if take == HugetlbTake::Reserved { CameFrom::Away } else { CameFrom::Use };
        self.put_back((pfn, size), init, from);
    }

    /// The last reference to a folio of the pool is gone: it comes back. `left` is what its record says.
    pub(super) fn return_folio(self, pfn: Pfn, left: FrameState) {
        let kept = if left.is_astray() { CameFrom::Astray } else { CameFrom::Use };
        let from = if left.restores() { CameFrom::Away } else { kept };
        self.put_back((pfn, size_of_order(left.order())), Init::Dirty, from);
    }

    /// Puts the reference that the entry of a folio had which is to come back for it; the flush has ended.
    /// Returns what is left. Where that is a reference of another party the folio does not come back by
    /// itself: one step with the count, as that party may put it at once.
    pub(super) fn put_restoring(self, meta: &FrameMeta<M::Cpu>, state: FrameState) -> Option<FrameState> {
        let (mut pool, _) = self.lock(size_of_order(state.order()))?;
        let left = meta.put_restoring();
        if left.is_some_and(FrameState::is_astray) {
            pool.away -= 1;
            pool.astray += 1;
        }
        left
    }

    fn put_back(self, (pfn, size): (Pfn, PageSize), init: Init, from: CameFrom) {
        let Some((mut state, index)) = self.lock(size) else { return };
        match from {
            CameFrom::Away => state.away -= 1,
            CameFrom::Astray => state.astray -= 1,
            CameFrom::Use => {}
        }
        // Counted as free: is it more than what is reserved?
        let is_spare = state.free + 1 + state.away > state.reserved;
        if state.surplus > 0 && is_spare {
            state.surplus -= 1;
            state.total -= 1;
            drop(state);
            return self.release(pfn, size.order(), init);
        }
        state.free += 1;
        self.push(self.memory.zone_of(pfn).hugetlb(index), (pfn, size), init);
    }

    /// Locks the pool of a size.
    fn lock(self, size: PageSize) -> Option<(SpinGuard<'m, HugetlbState, M::Cpu>, usize)> {
        let index = index_of(size)?;
        Some((self.memory.hugetlb_pools.sizes[index].lock(), index))
    }

    /// Frees a folio that has left the pool to its zone.
    fn release(self, pfn: Pfn, order: Order, init: Init) {
        self.memory.meta_of(pfn).set_state(FrameState::taken(order));
        self.memory.free_block(pfn, order, init);
    }

    /// Whether the lists hold what the counts say, and as many folios of this size say that they are free.
    pub(super) fn is_sound(self, size: PageSize, free_by_records: u64) -> bool {
        let Some((state, index)) = self.lock(size) else { return true };
        let listed = |zone: &Zone<'_, M::Cpu>| {
            let list = zone.hugetlb(index);
            let folios = core::iter::successors(list.first(), |&pfn| self.memory.meta_of(pfn).next());
            let is_here = |pfn: &Pfn| core::ptr::eq(self.memory.zone_of(*pfn), zone);
            (folios.take_while(is_here).count() as u64 == list.len()).then_some(list.len())
        };
        let free = self.memory.zones.iter().map(listed).sum::<Option<u64>>();
        let kept = state.free + state.away + state.astray;
        let holds = state.reserved <= kept && state.surplus <= state.total;
        holds && free == Some(state.free) && state.free <= state.total && free_by_records == state.free
    }
}

impl<M: Machine> Clone for HugetlbPool<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for HugetlbPool<'_, M> {}

impl<M: Machine> fmt::Debug for HugetlbPool<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [huge, giant] = [PageSize::Huge, PageSize::Giant].map(|size| self.counts(size));
        write!(f, "of 2 MiB {huge:?}, of 1 GiB {giant:?}")
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/hugetlb.rs"]
mod tests;
