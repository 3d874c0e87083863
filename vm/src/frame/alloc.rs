//! Allocation.
//!
//! ```text
//!   alloc_frame ── pop from this CPU's cache                        no lock, no fence
//!       │ empty
//!       ├─ refill: a batch from the nearest zone that has frames    under the lock of a region
//!       │     nothing free there: initialise deferred blocks of it
//!       └─ nothing in any zone: alloc_uncached, which drains all CPUs' caches and searches once more
//! ```
//!
//! The [`AllocRequest`] limits the steps; `NoWait` stops before the last one.

use super::parts::PART;
use super::percpu::{BatchKind, CachedFrame, CpuCache, FrameStack, MAX_BATCH, unpack};
use super::zone::ZoneSearch;
use super::{
    AllocRequest, Base, Folio, Frame, FramePlacement, FrameState, Init, Memory, Priority, TableFrame,
};
use super::{ZeroedFolio, ZeroedFrame, Zone};
use crate::machine::{Cpu, Machine};
use crate::sync::CpuGuard;
use crate::sync::asymmetric::AsymmetricCell;
use crate::units::{Order, Pfn};
use crate::work::WorkerPool;

/// This CPU's cache, preemption off.
pub(super) type LocalCache<'a, C> = CpuGuard<'a, CpuCache<C>, C>;

impl<M: Machine> Memory<'_, M> {
    /// Allocates a frame, from this CPU's cache if possible.
    #[inline]
    pub fn alloc_frame(&self, request: AllocRequest) -> Option<Frame<'_, M>> {
        self.take_frame(request).map(|pfn| Frame::new(self, pfn, Base))
    }

    /// Allocates a frame where it is wanted.
    pub fn alloc_frame_from(&self, placement: FramePlacement, request: AllocRequest) -> Option<Frame<'_, M>> {
        self.take_frame_from(placement, request).map(|pfn| Frame::new(self, pfn, Base))
    }

    /// Allocates a zeroed frame, from this CPU's cache if possible.
    #[inline(always)]
    pub fn alloc_zeroed(&self, priority: Priority) -> Option<ZeroedFrame<'_, M>> {
        let request = AllocRequest::ZEROED.with_priority(priority);
        self.take_frame(request).map(|pfn| ZeroedFrame::new(self, pfn, Base))
    }

    /// Allocates a zeroed frame where it is wanted.
    pub fn alloc_zeroed_from(
        &self,
        placement: FramePlacement,
        priority: Priority,
    ) -> Option<ZeroedFrame<'_, M>> {
        let request = AllocRequest::ZEROED.with_priority(priority);
        self.take_frame_from(placement, request).map(|pfn| ZeroedFrame::new(self, pfn, Base))
    }

    /// Takes a frame from this CPU's cache if possible. The caller makes a value of it.
    #[inline(always)]
    pub(super) fn take_frame(&self, request: AllocRequest) -> Option<Pfn> {
        if self.mishap.strikes() {
            return None;
        }
        let cache = self.caches.get_cpu();
        let popped =
            AsymmetricCell::with(&cache, CpuCache::frames, |stack| stack.pop(&cache.count)).flatten();
        let Some(word) = popped else { return self.alloc_frame_slow(cache, request) };
        let (pfn, init) = unpack(word);
        Some(self.prepare_frame(pfn, init, request.init))
    }

    fn take_frame_from(&self, placement: FramePlacement, request: AllocRequest) -> Option<Pfn> {
        if placement == FramePlacement::Local {
            return self.take_frame(request);
        }
        if self.mishap.strikes() {
            return None;
        }
        self.alloc_uncached(placement, request)
    }

    /// Allocates a block of 2^order frames.
    pub fn alloc(&self, order: Order, request: AllocRequest) -> Option<Folio<'_, M>> {
        if order == Order::BASE {
            return self.alloc_frame(request).map(Folio::from);
        }
        if order > Order::MAX || self.mishap.strikes() {
            return None;
        }
        let from = |zone: &Zone<'_, _>, how| zone.alloc(&self.table, order, request.priority, how);
        let block = self.search(FramePlacement::Local, order, request.priority, from)?;
        // SAFETY: a zone has just given the block.
        Some(Folio::new(self, unsafe { self.prepare_block(block, order, request.init) }, order))
    }

    /// Allocates a zeroed block of more than one frame where it is wanted, if one is free: no CPU's cache is
    /// drained for it, as what is in the caches is seldom a block's last part. Called outside of read
    /// sections: zeroing lasts. (Linux: `alloc_hugepage` without direct compaction.)
    pub fn alloc_zeroed_folio(&self, placement: FramePlacement, order: Order) -> Option<ZeroedFolio<'_, M>> {
        let block = self.take_block(placement, order)?;
        // SAFETY: a zone has just given the block.
        Some(ZeroedFolio::new(self, unsafe { self.prepare_block(block, order, Init::Zeroed) }, order))
    }

    /// As [`alloc_zeroed_folio`](Self::alloc_zeroed_folio), zeroed in parts where it has [`Order::HUGE`] and
    /// a helper may come. The caller may hold sleeping locks, and no spin lock.
    pub(crate) fn alloc_zeroed_folio_by(
        &self,
        placement: FramePlacement,
        order: Order,
        workers: Option<&WorkerPool<'_, M>>,
    ) -> Option<ZeroedFolio<'_, M>> {
        if order < Order::HUGE || !workers.is_some_and(WorkerPool::may_have_helper_racy) {
            return self.alloc_zeroed_folio(placement, order);
        }
        let block = self.take_block(placement, order)?;
        // SAFETY: a zone has just given the block.
        let pfn = unsafe { self.prepare_block(block, order, Init::Dirty) };
        if block.1 == Init::Dirty && !mutant!("alloc.folio-not-zeroed-by-helpers") {
            // SAFETY: the part lies in the block, by `in_parts`, which this call alone has; no other
            // part holds these frames.
            self.in_parts(workers, (pfn, order), |part| unsafe { self.machine.zero(part, PART) });
        }
        Some(ZeroedFolio::new(self, pfn, order))
    }

    /// As [`alloc_zeroed_folio`](Self::alloc_zeroed_folio), with any contents.
    pub(crate) fn alloc_folio(&self, placement: FramePlacement, order: Order) -> Option<Folio<'_, M>> {
        let block = self.take_block(placement, order)?;
        // SAFETY: a zone has just given the block.
        Some(Folio::new(self, unsafe { self.prepare_block(block, order, Init::Dirty) }, order))
    }

    /// Takes a block from a zone, if one is free.
    fn take_block(&self, placement: FramePlacement, order: Order) -> Option<CachedFrame> {
        if order == Order::BASE || order > Order::MAX || self.mishap.strikes() {
            return None;
        }
        let from =
            |zone: &Zone<'_, M::Cpu>| zone.alloc(&self.table, order, Priority::Normal, ZoneSearch::Hinted);
        self.search_once(placement, order, Priority::Normal, from)
    }

    /// Whether a zone that the placement allows had a free block of `order` or more a moment ago. Takes no
    /// lock.
    pub(crate) fn may_have_block(&self, placement: FramePlacement, order: Order) -> bool {
        self.zones_from(placement).any(|zone| zone.may_have_block(order))
    }

    /// The record of a block that a zone has given says that it is allocated, and its bytes are as wanted.
    ///
    /// # Safety
    /// A zone of this memory has given the block, of this order, to the caller, which has not passed it on.
    unsafe fn prepare_block(&self, (pfn, init): CachedFrame, order: Order, wanted: Init) -> Pfn {
        self.meta_of(pfn).set_state(FrameState::taken(order));
        self.caches.get_cpu().count_uncached(order.frames());
        if (wanted, init) == (Init::Zeroed, Init::Dirty) && !mutant!("alloc.folio-not-zeroed") {
            // SAFETY: what a zone has given is in none any more, and is the caller's, as it says.
            unsafe { self.machine.zero(pfn, order) };
        }
        pfn
    }

    /// Allocates an empty table, its lock free and no slot in use.
    pub fn alloc_table(&self, priority: Priority) -> Option<TableFrame<'_, M>> {
        self.alloc_zeroed(priority).map(ZeroedFrame::into_table)
    }

    /// The record of a cached frame says that it is allocated, and its bytes are as requested. (Linux:
    /// `prep_new_page`.)
    #[inline(always)]
    fn prepare_frame(&self, pfn: Pfn, init: Init, wanted: Init) -> Pfn {
        let meta = self.meta_of(pfn);
        debug_assert_eq!(meta.state(), FrameState::cached(init), "{pfn:?} was in a cache");
        meta.set_state(FrameState::TAKEN_FRAME);
        if (wanted, init) == (Init::Zeroed, Init::Dirty) && !mutant!("alloc.frame-not-zeroed") {
            // SAFETY: the frame was just allocated, and has no other owner.
            unsafe { self.machine.zero(pfn, Order::BASE) };
        }
        pfn
    }

    /// The cache is empty: refills it from the nearest zone that has frames or can initialise some, and
    /// allocates the first of them.
    #[cold]
    #[inline(never)]
    fn alloc_frame_slow(&self, cache: LocalCache<'_, M::Cpu>, request: AllocRequest) -> Option<Pfn> {
        // The refill runs while the owner uses the cache, so that a CPU that revokes it finds these frames in
        // the zone or in the stack. Initialisation on demand runs outside.
        let word = self.zones_from(FramePlacement::Local).find_map(|zone| {
            loop {
                let refill =
                    |stack: &mut FrameStack<M::Cpu>| self.refill(&cache, stack, zone, request.priority);
                let first = AsymmetricCell::with(&cache, CpuCache::frames, refill);
                if first != Some(None)
                    || !self.deferred().initialise_on_demand(zone, Order::BASE, request.priority)
                {
                    break first.flatten();
                }
            }
        });
        drop(cache);
        let Some(word) = word else { return self.alloc_uncached(FramePlacement::Local, request) };
        let (pfn, init) = unpack(word);
        Some(self.prepare_frame(pfn, init, request.init))
    }

    /// Moves a batch from a zone to the stack, all but the first frame, which is returned. (Linux:
    /// `rmqueue_bulk`.)
    fn refill(
        &self,
        cache: &LocalCache<'_, M::Cpu>,
        stack: &mut FrameStack<M::Cpu>,
        zone: &Zone<'_, M::Cpu>,
        priority: Priority,
    ) -> Option<u64> {
        let mut batch = [0; MAX_BATCH];
        let batch = &mut batch[..cache.next_batch(BatchKind::Refill)];
        let taken = zone.alloc_batch(&self.table, batch, priority);
        if taken == 0 {
            return None;
        }
        cache.refilled.add_own(taken as u64);
        cache.uncached.add_own(1);
        let frames = &batch[..taken];
        frames.iter().for_each(|&word| self.mark_cached(word));
        // In order, so that allocations ascend; frames that the stack does not hold go back.
        let left = stack.refill(&cache.count, &frames[1..]);
        if left > 0 {
            cache.spilled.add_own(left as u64);
            self.free_to_zones(&frames[1..=left]);
        }
        Some(frames[0])
    }

    /// The record of a frame that came from a zone says that it is in a cache.
    #[inline(always)]
    fn mark_cached(&self, word: u64) {
        let (pfn, init) = unpack(word);
        self.meta_of(pfn).set_state(FrameState::cached(init));
    }

    /// Allocates a frame from a zone, past the cache.
    fn alloc_uncached(&self, placement: FramePlacement, request: AllocRequest) -> Option<Pfn> {
        let from = |zone: &Zone<'_, _>, how| zone.alloc(&self.table, Order::BASE, request.priority, how);
        let (pfn, init) = self.search(placement, Order::BASE, request.priority, from)?;
        self.caches.get_cpu().count_uncached(1);
        self.meta_of(pfn).set_state(FrameState::cached(init));
        Some(self.prepare_frame(pfn, init, request.init))
    }

    /// Asks every zone that the placement allows, as long as deferred blocks may arrive; and once more with
    /// all CPUs' caches drained, which finds every frame that is free at that moment. `NoWait` asks once.
    fn search(
        &self,
        placement: FramePlacement,
        order: Order,
        priority: Priority,
        mut from: impl FnMut(&Zone<'_, M::Cpu>, ZoneSearch) -> Option<CachedFrame>,
    ) -> Option<CachedFrame> {
        loop {
            let may_initialise =
                self.zones_from(placement).any(|zone| zone.may_initialise(&self.table, order, priority));
            if let Some(found) =
                self.search_once(placement, order, priority, |zone| from(zone, ZoneSearch::Hinted))
            {
                return Some(found);
            }
            if !may_initialise || mutant!("alloc.deferred-not-awaited") {
                break;
            }
            M::Cpu::relax();
        }
        let mut search = || self.zones_from(placement).find_map(|zone| from(zone, ZoneSearch::Every));
        if priority == Priority::NoWait {
            return None;
        }
        if mutant!("alloc.searched-after-drain") {
            return if self.drain() > 0 { search() } else { None };
        }
        self.drain_and(search).1
    }

    /// Asks every zone that the placement allows, initialising blocks of those that have no free frame.
    fn search_once<R>(
        &self,
        placement: FramePlacement,
        order: Order,
        priority: Priority,
        mut from: impl FnMut(&Zone<'_, M::Cpu>) -> Option<R>,
    ) -> Option<R> {
        self.zones_from(placement).find_map(|zone| {
            loop {
                let found = from(zone);
                if found.is_some() || !self.deferred().initialise_on_demand(zone, order, priority) {
                    return found;
                }
            }
        })
    }
}
