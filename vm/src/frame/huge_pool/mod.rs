//! The reserved pool: huge pages that are taken from the zones beforehand, and kept. (Linux: hugetlbfs.)
//!
//! ```text
//!   zones ── resize ──► free ── take ──► PoolFolio ── into_mapped_at ──► a huge leaf
//!     ▲                  ▲                   │ dropped                     │ unhook, flush
//!     └──── resize ──────┤◄──────────────────┘                             │
//!                        └◄──── the last reference is put (a pin's, too) ──┘
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the counts, and all changes of them |
//! | `folio` | [`PoolFolio`]: a huge page that was taken, and is not mapped yet |
//! | `copy` | [`PoolCopy`]: one that holds a copy of what several spaces share |
//! | `reserve` | [`HugeReserve`]: huge pages that are set aside, on the way to or from what counts them |
//! | `resize` | how many huge pages there are |
//! | `take_back` | [`TakingBack`]: a page is being taken back from children |
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
//! | `takers` | none: calls that take a page back; `begun` counts these and copies, from the start |
//!
//! The rule is *reserved ≤ free + away + astray*; what *free + away* have beyond *reserved* is *available* to
//! mappings that set nothing aside, and to be reserved. So a fault that takes a huge page for a reserved
//! entry gets one: where none is free at this moment, one is on its way back, and is waited for. But for what
//! has gone astray: a caller has taken a reference by number between the change of the entry and its flush.
//! How long it is kept is not for the pool to say, so nothing waits for it but one grace period. A fault that
//! prepares a huge page changes no reserve before it installs it, under the lock of the entry's table; so it
//! does not matter what becomes of the entry meanwhile.

mod copy;
mod folio;
mod reserve;
mod resize;
mod take_back;

pub(crate) use copy::PoolCopy;
pub(crate) use folio::{PoolFolio, PoolTake};
pub(crate) use reserve::HugeReserve;
pub(crate) use take_back::TakingBack;

use super::{FrameMeta, FramePlacement, FrameState, Init, Memory, Zone};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{SpinGuard, SpinLock, lockdep};
use crate::units::{Order, PageSize, Pfn};

/// Number of huge pages of one size that the reserved pool has. (Linux: `/proc/meminfo`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolCounts {
    /// All, in use or not. (Linux: `HugePages_Total`.)
    pub total: u64,
    /// Not in use. (Linux: `HugePages_Free`.)
    pub free: u64,
    /// Of the free ones, those that are kept for pages that were not touched yet. (Linux: `HugePages_Rsvd`.)
    pub reserved: u64,
    /// Those that leave the pool once they are not in use. (Linux: `HugePages_Surp`.)
    pub surplus: u64,
}

/// The pools of both sizes.
#[derive(Debug)]
pub(in crate::frame) struct HugePools<C: Cpu> {
    sizes: [SpinLock<PoolState, C, { lockdep::HUGE_POOL.0 }>; 2],
}

/// The counts of the module's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PoolState {
    total: u64,
    free: u64,
    reserved: u64,
    away: u64,
    astray: u64,
    surplus: u64,
    copies: u64,
    takers: u64,
    begun: u64,
}

/// The free folios of one node and size, linked through the records of their heads.
#[derive(Debug)]
pub(in crate::frame) struct PoolList<C: Cpu> {
    /// The first one's number, plus one; 0 for none. Relaxed, as the length: guarded by the pool's lock.
    first: AtomicU64<C>,
    len: AtomicU64<C>,
}

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

impl<C: Cpu> HugePools<C> {
    pub const fn new() -> Self {
        Self { sizes: [const { SpinLock::new(PoolState::EMPTY) }; 2] }
    }
}

impl PoolState {
    const EMPTY: Self = Self {
        total: 0,
        free: 0,
        reserved: 0,
        away: 0,
        astray: 0,
        surplus: 0,
        copies: 0,
        takers: 0,
        begun: 0,
    };

    /// Those that are not reserved.
    const fn available(&self) -> u64 {
        (self.free + self.away).saturating_sub(self.reserved)
    }

    /// Those that stay once all are back.
    const fn persistent(&self) -> u64 {
        self.total - self.surplus
    }
}

impl<C: Cpu> PoolList<C> {
    pub const fn new() -> Self {
        Self { first: AtomicU64::new(0), len: AtomicU64::new(0) }
    }

    fn first(&self) -> Option<Pfn> {
        self.first.load(Relaxed).checked_sub(1).map(Pfn)
    }

    fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    fn set(&self, first: Option<Pfn>, len: u64) {
        self.first.store(first.map_or(0, |pfn| pfn.0 + 1), Relaxed);
        self.len.store(len, Relaxed);
    }
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

impl<M: Machine> Memory<'_, M> {
    /// What the pool of a size has.
    pub fn huge_pool(&self, size: PageSize) -> PoolCounts {
        let Some((state, _)) = self.lock_pool(size) else { return PoolCounts::default() };
        let PoolState { total, free, reserved, surplus, .. } = *state;
        PoolCounts { total, free, reserved, surplus }
    }

    /// Sets `nr` huge pages aside for as many entries. False, and nothing has changed, where fewer are
    /// available.
    fn reserve_huge(&self, size: PageSize, nr: u64) -> bool {
        let Some((mut state, _)) = self.lock_pool(size) else { return false };
        let is_there = nr <= state.available() || mutant!("pool.reserved-twice");
        if is_there {
            state.reserved += nr;
        }
        is_there
    }

    /// What was set aside is given up.
    fn unreserve_huge(&self, size: PageSize, nr: u64) {
        if let Some((mut state, _)) = self.lock_pool(size)
            && !mutant!("pool.reserve-kept")
        {
            state.reserved -= nr;
        }
        self.shed_surplus(size);
    }

    /// The leaf that mapped the folio at `pfn` has just been replaced, under its table's lock; a huge page is
    /// set aside for the entry again: this one, once it is back, or another one where there is a
    /// reference that may last. False where none is available for that.
    pub(crate) fn reserve_again(&self, size: PageSize, pfn: Pfn) -> bool {
        if !self.meta_of(pfn).begin_restore() {
            return self.reserve_huge(size, 1);
        }
        if let Some((mut state, _)) = self.lock_pool(size) {
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
    pub(crate) fn take_from_pool(
        &self,
        size: PageSize,
        placement: FramePlacement,
        take: PoolTake,
    ) -> Result<PoolFolio<'_, M>, NotTaken> {
        loop {
            match self.try_take_from_pool(size, placement, take) {
                Err(NotTaken::Away) => M::Cpu::relax(),
                result => return result,
            }
        }
    }

    /// As [`take_from_pool`](Self::take_from_pool), and waits for nothing.
    ///
    /// # Errors
    /// Why none was taken.
    pub(crate) fn try_take_from_pool(
        &self,
        size: PageSize,
        placement: FramePlacement,
        take: PoolTake,
    ) -> Result<PoolFolio<'_, M>, NotTaken> {
        let (mut state, index) = self.lock_pool(size).ok_or(NotTaken::Empty)?;
        self.take_locked(&mut state, (size, index), placement, take)
    }

    /// As [`try_take_from_pool`](Self::try_take_from_pool), of a pool that is locked.
    fn take_locked(
        &self,
        state: &mut PoolState,
        (size, index): (PageSize, usize),
        placement: FramePlacement,
        take: PoolTake,
    ) -> Result<PoolFolio<'_, M>, NotTaken> {
        if take == PoolTake::Available && state.available() == 0 && !mutant!("pool.reserve-taken") {
            return Err(NotTaken::Empty);
        }
        if state.free == 0 {
            let is_kept = take == PoolTake::Reserved && !mutant!("pool.kept-taken-for-empty");
            return Err(match is_kept {
                _ if state.away > 0 => NotTaken::Away,
                true if state.astray > 0 => NotTaken::Astray,
                true => NotTaken::Kept,
                false => NotTaken::Empty,
            });
        }
        let lists = self.zones_from(placement).map(|zone| zone.huge_pool(index));
        let pfn = lists.filter_map(|list| self.pop(list)).next().ok_or(NotTaken::Empty)?;
        state.free -= 1;
        if take == PoolTake::Reserved {
            state.away += 1;
        }
        Ok(PoolFolio::new(self, (pfn, size), self.meta_of(pfn).state().init(), take))
    }

    /// A folio that was taken for a reserved entry is installed there: under the lock of the entry's table.
    fn use_reserve(&self, size: PageSize) {
        if let Some((mut state, _)) = self.lock_pool(size) {
            state.away -= 1;
            state.reserved -= 1;
        }
    }

    /// A folio that was taken comes back.
    fn untake(&self, (pfn, size): (Pfn, PageSize), init: Init, take: PoolTake) {
        let from = if take == PoolTake::Reserved { CameFrom::Away } else { CameFrom::Use };
        self.put_back((pfn, size), init, from);
    }

    /// The last reference to a folio of the pool is gone: it comes back. `left` is what its record says.
    pub(super) fn return_to_pool(&self, pfn: Pfn, left: FrameState) {
        let kept = if left.is_astray() { CameFrom::Astray } else { CameFrom::Use };
        let from = if left.restores() { CameFrom::Away } else { kept };
        self.put_back((pfn, size_of_order(left.order())), Init::Dirty, from);
    }

    /// Puts the reference that the entry of a folio had which is to come back for it; the flush has ended.
    /// Returns what is left. Where that is a reference of another party the folio does not come back by
    /// itself: one step with the count, as that party may put it at once.
    pub(super) fn put_restoring(&self, meta: &FrameMeta<M::Cpu>, state: FrameState) -> Option<FrameState> {
        let (mut pool, _) = self.lock_pool(size_of_order(state.order()))?;
        let left = meta.put_restoring();
        if left.is_some_and(FrameState::is_astray) {
            pool.away -= 1;
            pool.astray += 1;
        }
        left
    }

    fn put_back(&self, (pfn, size): (Pfn, PageSize), init: Init, from: CameFrom) {
        let Some((mut state, index)) = self.lock_pool(size) else { return };
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
        self.push(self.zone_of(pfn).huge_pool(index), (pfn, size), init);
    }

    /// Locks the pool of a size.
    fn lock_pool(&self, size: PageSize) -> Option<(SpinGuard<'_, PoolState, M::Cpu>, usize)> {
        let index = index_of(size)?;
        Some((self.huge_pools.sizes[index].lock(), index))
    }

    /// Adds a folio to a list. The pool's lock is held.
    fn push(&self, list: &PoolList<M::Cpu>, (pfn, size): (Pfn, PageSize), init: Init) {
        let meta = self.meta_of(pfn);
        meta.set_state(FrameState::pooled(size.order(), init));
        meta.set_prev(None);
        meta.set_next(list.first());
        list.set(Some(pfn), list.len() + 1);
    }

    /// Takes the first folio off a list. The pool's lock is held.
    fn pop(&self, list: &PoolList<M::Cpu>) -> Option<Pfn> {
        let pfn = list.first()?;
        let meta = self.meta_of(pfn);
        list.set(meta.next(), list.len() - 1);
        meta.set_next(None);
        Some(pfn)
    }

    /// Frees a folio that has left the pool to its zone.
    fn release(&self, pfn: Pfn, order: Order, init: Init) {
        self.meta_of(pfn).set_state(FrameState::taken(order));
        self.free_block(pfn, order, init);
    }

    /// Whether the lists hold what the counts say, and `pooled` folios of this size say that they are free.
    pub(super) fn is_pool_sound(&self, size: PageSize, pooled: u64) -> bool {
        let Some((state, index)) = self.lock_pool(size) else { return true };
        let listed = |zone: &Zone<'_, M::Cpu>| {
            let list = zone.huge_pool(index);
            let folios = core::iter::successors(list.first(), |&pfn| self.meta_of(pfn).next());
            let is_here = |pfn: &Pfn| core::ptr::eq(self.zone_of(*pfn), zone);
            (folios.take_while(is_here).count() as u64 == list.len()).then_some(list.len())
        };
        let free = self.zones.iter().map(listed).sum::<Option<u64>>();
        let kept = state.free + state.away + state.astray;
        let holds = state.reserved <= kept && state.surplus <= state.total;
        holds && free == Some(state.free) && state.free <= state.total && pooled == state.free
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/huge_pool.rs"]
mod tests;
