//! Freeing, and draining of the CPUs' caches.
//!
//! ```text
//!   free_frame ── push to this CPU's cache                 no lock, no fence
//!       │ full: spill its coldest batch to the zones       each to its region
//!       └ revoked by another CPU: free the frame to its zone
//! ```
//!
//! Owners free what they own, so a free that does not fit the frame's record is an error of this floor: see
//! [`Memory::refuse`].

use super::alloc::LocalCache;
use super::percpu::{BatchKind, CpuCache, FrameStack, MAX_BATCH, pack, unpack};
use super::zone::are_scattered;
use super::{BoundSlabPool, FrameMeta, FrameState, Init, Kind, Memory};
use crate::machine::{Cpu, Machine};
use crate::sync::asymmetric::{AsymmetricCell, revoke_all};
use crate::sync::atomic::Ordering::*;
use crate::units::{Order, Pfn, PfnRange};

impl<M: Machine> Memory<'_, M> {
    /// Frees a frame that was taken and put to no use, whose bytes are as `init` says. Its owner calls this
    /// as it ends.
    #[inline]
    pub(super) fn free_frame(&self, pfn: Pfn, init: Init) {
        self.free_to_cache(self.meta_of(pfn), pfn, init);
    }

    /// As [`free_frame`](Self::free_frame), for a block.
    pub(super) fn free_block(&self, pfn: Pfn, order: Order, init: Init) {
        debug_assert_eq!(
            self.meta_of(pfn).state(),
            FrameState::taken(order),
            "{pfn:?} is freed while in use"
        );
        self.caches.get_cpu().spilled.add_own(order.frames());
        let zone = self.zone_of(pfn);
        if order > Order::MAX {
            let frames = PfnRange::new(pfn, pfn.add(order.frames()));
            return zone.free_range(&self.table, frames, init);
        }
        zone.free(&self.table, pfn, order, init);
    }

    /// Frees a table that only the caller owns, and that no walk is in.
    pub(super) fn free_table(&self, pfn: Pfn, init: Init) {
        if self.meta_of(pfn).relinquish() { self.free_frame(pfn, init) } else { self.refuse(pfn) }
    }

    /// Lowers the refcount of user memory: the caller's reference is gone. The last one frees the frame.
    pub(super) fn put(&self, pfn: Pfn) {
        let Some(meta) = self.meta(pfn) else { return self.refuse(pfn) };
        self.free_if_taken(meta, pfn, meta.put());
    }

    /// As [`put`](Self::put), of the reference that the only entry of a frame or a block had.
    #[cold]
    #[inline(never)]
    pub(super) fn put_exclusive(&self, pfn: Pfn) {
        let meta = self.meta_of(pfn);
        let state = meta.state();
        let left = if state.restores() { self.hugetlb().put_restoring(meta, state) } else { meta.put() };
        self.free_if_taken(meta, pfn, left);
    }

    /// As [`put`](Self::put), of a pin.
    pub(super) fn put_pin(&self, pfn: Pfn) {
        let meta = self.meta_of(pfn);
        self.free_if_taken(meta, pfn, meta.unpin());
    }

    /// Frees what is taken after a reference was put.
    #[inline(always)]
    fn free_if_taken(&self, meta: &FrameMeta<M::Cpu>, pfn: Pfn, left: Option<FrameState>) {
        match left {
            Some(FrameState::TAKEN_FRAME) => {
                meta.end_as_frame();
                self.free_to_cache(meta, pfn, Init::Dirty);
            }
            Some(left) if left.kind() == Kind::Taken => self.free_used_folio(pfn, left),
            Some(_) => (),
            None => self.refuse(pfn),
        }
    }

    /// Frees a block whose last reference is gone: to its zone, or to the hugetlb pool.
    #[cold]
    #[inline(never)]
    fn free_used_folio(&self, pfn: Pfn, left: FrameState) {
        self.meta_of(pfn).end_as_folio();
        if left.is_hugetlb() && !mutant!("pool.folio-freed-to-zone") {
            return self.hugetlb().return_folio(pfn, left);
        }
        self.meta_of(pfn).set_state(FrameState::taken(left.order()));
        self.free_block(pfn, left.order(), Init::Dirty);
    }

    /// Frees the frames of all slab pools that hold no object: those of indexes, and of values found by
    /// number.
    pub(crate) fn shrink_slab_pools(&self) {
        BoundSlabPool::shrink_all(self);
    }

    /// Frees every CPU's cached frames to the zones. Returns how many.
    pub fn drain(&self) -> u64 {
        self.drain_and(|| ()).0
    }

    /// The calling CPU goes offline: what it has reserved of zones is for other CPUs.
    pub(crate) fn leave_zones(&self) {
        self.zones.iter().for_each(|zone| zone.leave_all(&self.table));
    }

    /// Frees every CPU's cached frames to the zones and calls `then` before any can go to a cache again.
    ///
    /// Reading the caches beforehand cannot save the barrier where all are empty: while the CPU reads one
    /// after the other, frames can move from an unread cache through the zone to one already read.
    pub(super) fn drain_and<R>(&self, then: impl FnOnce() -> R) -> (u64, R) {
        let _drain = self.drain.lock();
        let mut drained = 0;
        let drain_one = |cache: &CpuCache<M::Cpu>, stack: &mut FrameStack<M::Cpu>| {
            let mut batch = [0; MAX_BATCH];
            while let taken @ 1.. = stack.take_coldest(&cache.count, &mut batch) {
                self.free_to_zones(&batch[..taken]);
                cache.drained.add_own(taken as u64);
                drained += taken as u64;
            }
        };
        let result = revoke_all(&self.caches, self.machine, CpuCache::frames, drain_one, then);
        (drained, result)
    }

    /// Calls `visit` for every cached frame, while its owner is kept out.
    pub(super) fn visit_caches(&self, mut visit: impl FnMut(&CpuCache<M::Cpu>, Pfn, Init)) {
        let _drain = self.drain.lock();
        let visit_one = |cache: &CpuCache<M::Cpu>, stack: &mut FrameStack<M::Cpu>| {
            stack.words(&cache.count).map(unpack).for_each(|(pfn, init)| visit(cache, pfn, init));
        };
        revoke_all(&self.caches, self.machine, CpuCache::frames, visit_one, || ());
    }

    /// Frees a frame to this CPU's cache.
    #[inline(always)]
    fn free_to_cache(&self, meta: &FrameMeta<M::Cpu>, pfn: Pfn, init: Init) {
        self.free_word(prepare_free(meta, pfn, init));
    }

    /// Frees prepared frames to this CPU's cache, the last one on top.
    pub(super) fn free_batch(&self, words: &[u64]) {
        if words.is_empty() {
            return;
        }
        let cache = self.caches.get_cpu();
        let push = |stack: &mut FrameStack<M::Cpu>| stack.push_batch(&cache.count, words);
        let pushed = AsymmetricCell::with(&cache, CpuCache::frames, push);
        drop(cache);
        words[pushed.unwrap_or(0)..].iter().for_each(|&word| self.free_word(word));
    }

    #[inline(always)]
    fn free_word(&self, word: u64) {
        let cache = self.caches.get_cpu();
        let push = |stack: &mut FrameStack<M::Cpu>| stack.push(&cache.count, word);
        if AsymmetricCell::with(&cache, CpuCache::frames, push) != Some(true) {
            self.spill(cache, word);
        }
    }

    /// The cache is full: frees its coldest batch to the zones. Or it is revoked: then the frame itself.
    #[cold]
    #[inline(never)]
    fn spill(&self, cache: LocalCache<'_, M::Cpu>, word: u64) {
        let free = |frames: &[u64]| {
            cache.spilled.add_own(frames.len() as u64);
            self.free_to_zones(frames);
        };
        let spilled = AsymmetricCell::with(&cache, CpuCache::frames, |stack| {
            let mut batch = [0; MAX_BATCH];
            let taken = stack.take_coldest(&cache.count, &mut batch[..cache.next_batch(BatchKind::Spill)]);
            stack.push(&cache.count, word);
            // While the owner uses the cache, so that a CPU that revokes it finds these frames in the stack
            // or in the zone.
            free(&batch[..taken]);
        });
        if spilled.is_none() {
            free(&[word]);
        }
    }

    /// Frees cached frames to their zones, those of a region together. (Linux: `free_pcppages_bulk`.)
    pub(super) fn free_to_zones(&self, frames: &[u64]) {
        if let [zone] = self.zones
            && zone.is_one_region()
        {
            return zone.free_batch(&self.table, frames);
        }
        if !are_scattered(frames) {
            return self.free_in_order(frames);
        }
        let mut sorted = [0; MAX_BATCH];
        for frames in frames.chunks(MAX_BATCH) {
            let sorted = &mut sorted[..frames.len()];
            sorted.copy_from_slice(frames);
            sorted.sort_unstable_by_key(|&word| unpack(word).0);
            self.free_in_order(sorted);
        }
    }

    /// Frees cached frames to their zones, neighbours in the batch together.
    fn free_in_order(&self, frames: &[u64]) {
        if let [zone] = self.zones {
            return zone.free_batch(&self.table, frames);
        }
        let zone = |word: u64| self.zone_of(unpack(word).0);
        for run in frames.chunk_by(|&a, &b| core::ptr::eq(zone(a), zone(b))) {
            zone(run[0]).free_batch(&self.table, run);
        }
    }

    /// Refuses to free a frame that the caller does not own: the frame stays as it is, and
    /// [`Stats::refused`](super::Stats::refused) counts it. Debug builds panic.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&self, pfn: Pfn) {
        self.refused.fetch_add(1, Relaxed);
        debug_assert!(false, "{pfn:?} is not there to be freed: {:?}", self.meta(pfn));
    }
}

/// Marks the record of a frame that only the caller owns as cached. Returns the word for the cache. (Linux:
/// `free_pages_prepare`.)
#[inline(always)]
pub(super) fn prepare_free<C: Cpu>(meta: &FrameMeta<C>, pfn: Pfn, init: Init) -> u64 {
    debug_assert_eq!(meta.state(), FrameState::TAKEN_FRAME, "{pfn:?} is freed while in use");
    debug_assert_eq!((meta.mapcount(), meta.pincount()), (0, 0), "{pfn:?} is freed while in use");
    meta.set_state(FrameState::cached(init));
    cached_word(pfn, init)
}

/// The word for the cache, of a frame whose record is marked as cached.
#[inline(always)]
pub(super) const fn cached_word(pfn: Pfn, init: Init) -> u64 {
    pack((pfn, init))
}
