//! Allocating and freeing.

use super::cache::{CpuCache, Frames, MOST, Way, pack, unpack};
use super::nodes::FramePlacement;
use super::{AllocRequest, Folio, FrameMeta, FrameState, Init, Kind, Memory, Priority, Zone};
use crate::machine::{Cpu, Machine};
use crate::sync::CpuGuard;
use crate::sync::asymmetric::{AsymmetricCell, revoke_all};
use crate::sync::atomic::Ordering::*;
use crate::units::{Order, Pfn};

type OwnCache<'a, C> = CpuGuard<'a, CpuCache<C>, C>;

impl<M: Machine> Memory<'_, M> {
    /// A frame, from this CPU's cache where it has one.
    #[inline]
    #[must_use = "frames that are not freed are leaked"]
    pub fn alloc_frame(&self, ask: AllocRequest) -> Option<Pfn> {
        if self.mishap.strikes() {
            return None;
        }
        let own = self.caches.get_cpu();
        let popped = AsymmetricCell::with(&own, CpuCache::part, |stack| stack.pop(&own.tally)).flatten();
        let Some(word) = popped else { return self.alloc_frame_slow(own, ask) };
        let (pfn, init) = unpack(word);
        Some(self.hand_out(pfn, init, ask.init))
    }

    /// Frees a frame that its holder owns alone: just taken, or user memory with one reference, whose last
    /// holder this is.
    #[inline]
    pub fn free_frame(&self, pfn: Pfn) {
        self.free_frame_as(pfn, Init::Dirty);
    }

    /// Frees a frame whose bytes are known to be as `init` says.
    #[inline]
    pub fn free_frame_as(&self, pfn: Pfn, init: Init) {
        match self.meta(pfn) {
            Some(meta) if meta.state() == FrameState::TAKEN_FRAME => self.stock(meta, pfn, init),
            _ => self.free_counted(pfn),
        }
    }

    #[cold]
    #[inline(never)]
    fn free_counted(&self, pfn: Pfn) {
        match self.meta(pfn) {
            Some(meta) if meta.state().kind().is_counted() => self.put(pfn),
            _ => self.refuse(pfn),
        }
    }

    /// A zeroed frame as an attached table, its lock free and no slot in use.
    #[must_use = "frames that are not freed are leaked"]
    pub fn alloc_table(&self, priority: Priority) -> Option<Pfn> {
        let pfn = self.alloc_frame(AllocRequest::ZEROED.with_priority(priority))?;
        self.meta_of(pfn).put_to_use(Kind::Table);
        Some(pfn)
    }

    /// Frees a detached table. `init` says what its entries are now: a table whose slots are all absent is
    /// zero.
    pub fn free_table(&self, pfn: Pfn, init: Init) {
        match self.meta(pfn) {
            Some(meta) if meta.state().kind() == Kind::Table && meta.relinquish() => {
                self.free_frame_as(pfn, init);
            }
            _ => self.refuse(pfn),
        }
    }

    /// A block of 2^order frames.
    pub fn alloc(&self, order: Order, ask: AllocRequest) -> Option<Folio> {
        if order == Order::BASE {
            return self.alloc_frame(ask).map(|pfn| Folio::new(pfn, order));
        }
        if order > Order::MAX || self.mishap.strikes() {
            return None;
        }
        let from = |zone: &Zone<M::Cpu>| zone.take(&self.table, order, ask.priority);
        let (pfn, init) = self.search(FramePlacement::Local, order, ask.priority, from)?;
        self.meta_of(pfn).set_state(FrameState::taken(order));
        let own = self.caches.get_cpu();
        own.came_in.add_own(order.frames());
        own.past_stack.add_own(order.frames());
        drop(own);
        if (ask.init, init) == (Init::Zeroed, Init::Dirty) {
            self.machine.zero(pfn, order);
        }
        Some(Folio::new(pfn, order))
    }

    /// Frees a block.
    pub fn free(&self, folio: Folio) {
        let (order, pfn) = (folio.order(), folio.into_pfn());
        if order == Order::BASE { self.free_frame(pfn) } else { self.free_block(pfn, order) }
    }

    pub(super) fn free_block(&self, pfn: Pfn, order: Order) {
        self.free_block_as(pfn, order, Init::Dirty);
    }

    pub(super) fn free_block_as(&self, pfn: Pfn, order: Order, init: Init) {
        match self.meta(pfn).map(FrameMeta::state) {
            Some(state) if state == FrameState::taken(order) => (),
            Some(state) if state.kind().is_counted() && state.order() == order => return self.put(pfn),
            _ => return self.refuse(pfn),
        }
        self.caches.get_cpu().went_out.add_own(order.frames());
        self.zone_of(pfn).give(&self.table, pfn, order, init);
    }

    /// Gives every CPU's cached frames back to the zones. Returns how many.
    pub fn drain(&self) -> u64 {
        self.drain_and(|| ()).0
    }

    /// Gives every CPU's cached frames back to the zones and calls `then` before any can go to a cache again.
    ///
    /// A look at the caches beforehand would spare the claim where all are empty, but cannot tell: while it
    /// goes from one to the next, frames can go from the next through the zone to the one.
    pub(super) fn drain_and<R>(&self, then: impl FnOnce() -> R) -> (u64, R) {
        let _drain = self.drain.lock();
        let mut drained = 0;
        let give_back = |cache: &CpuCache<M::Cpu>, stack: &mut Frames<M::Cpu>| {
            let mut batch = [0; MOST];
            while let taken @ 1.. = stack.shift(&cache.tally, &mut batch) {
                self.give_back(&batch[..taken]);
                cache.drained.add_own(taken as u64);
                drained += taken as u64;
            }
        };
        let result = revoke_all(&self.caches, self.machine, CpuCache::part, give_back, then);
        (drained, result)
    }

    /// Shows every cached frame, while its owner is kept out.
    pub(super) fn visit_caches(&self, mut visit: impl FnMut(&CpuCache<M::Cpu>, Pfn, Init)) {
        let _drain = self.drain.lock();
        let show = |cache: &CpuCache<M::Cpu>, stack: &mut Frames<M::Cpu>| {
            stack.words(&cache.tally).map(unpack).for_each(|(pfn, init)| visit(cache, pfn, init));
        };
        revoke_all(&self.caches, self.machine, CpuCache::part, show, || ());
    }

    /// The record of a cached frame says that it is out, and its bytes are as asked.
    #[inline(always)]
    pub(super) fn hand_out(&self, pfn: Pfn, init: Init, asked: Init) -> Pfn {
        // SAFETY: the frame comes from a cache or zone of this memory, where only frames with records are.
        let meta = unsafe { self.table.meta_unchecked(pfn) };
        debug_assert_eq!(meta.state(), FrameState::cached(init), "{pfn:?} was in a cache");
        meta.set_state(FrameState::TAKEN_FRAME);
        if (asked, init) == (Init::Zeroed, Init::Dirty) {
            self.machine.zero(pfn, Order::BASE);
        }
        pfn
    }

    /// The stack is empty: a lot from the nearest zone that has something to give or can grow, of which one
    /// frame is the answer.
    #[cold]
    #[inline(never)]
    fn alloc_frame_slow(&self, own: OwnCache<'_, M::Cpu>, ask: AllocRequest) -> Option<Pfn> {
        // Taken inside, so that a claimant finds these frames in the zone or in the stack. A zone grows
        // outside.
        let word = self.zones_from(FramePlacement::Local).find_map(|zone| {
            loop {
                let take = |stack: &mut Frames<M::Cpu>| self.take_lot(&own, stack, zone, ask.priority);
                let taken = AsymmetricCell::with(&own, CpuCache::part, take);
                if taken != Some(None) || !self.grow(zone, Order::BASE, ask.priority) {
                    break taken.flatten();
                }
            }
        });
        drop(own);
        // The zones had nothing for us: take over what other CPUs hold, and look once more.
        let Some(word) = word else { return self.alloc_frame_past_cache(FramePlacement::Local, ask) };
        let (pfn, init) = unpack(word);
        Some(self.hand_out(pfn, init, ask.init))
    }

    /// Moves a lot from a zone to the stack, all but the first frame, which is the answer.
    fn take_lot(
        &self,
        own: &OwnCache<'_, M::Cpu>,
        stack: &mut Frames<M::Cpu>,
        zone: &Zone<M::Cpu>,
        priority: Priority,
    ) -> Option<u64> {
        let mut batch = [0; MOST];
        let lot = &mut batch[..own.next_lot(Way::In)];
        let taken = zone.take_run(&self.table, lot, priority);
        if taken == 0 {
            return None;
        }
        own.came_in.add_own(taken as u64);
        own.past_stack.add_own(1);
        let frames = &lot[..taken];
        frames.iter().for_each(|&word| self.note_cached(word));
        // So that they go out in order; what the stack does not take goes back.
        let left = stack.fill(&own.tally, &frames[1..]);
        if left > 0 {
            own.went_out.add_own(left as u64);
            self.give_back(&frames[1..=left]);
        }
        Some(frames[0])
    }

    /// The record of a frame that came from a zone says that it is in a cache.
    #[inline(always)]
    fn note_cached(&self, word: u64) {
        let (pfn, init) = unpack(word);
        // SAFETY: the frame comes from a zone of this memory, where only frames with records are.
        unsafe { self.table.meta_unchecked(pfn) }.set_state(FrameState::cached(init));
    }

    /// A frame goes to this CPU's cache.
    #[inline(always)]
    pub(super) fn stock(&self, meta: &FrameMeta<M::Cpu>, pfn: Pfn, init: Init) {
        self.stock_word(shelve(meta, pfn, init));
    }

    /// Frames whose records say so already go to this CPU's cache, the last one on top.
    pub(super) fn stock_words(&self, words: &[u64]) {
        if words.is_empty() {
            return;
        }
        let own = self.caches.get_cpu();
        let pushed = AsymmetricCell::with(&own, CpuCache::part, |stack| stack.push_all(&own.tally, words));
        drop(own);
        words[pushed.unwrap_or(0)..].iter().for_each(|&word| self.stock_word(word));
    }

    #[inline(always)]
    fn stock_word(&self, word: u64) {
        let own = self.caches.get_cpu();
        let pushed = AsymmetricCell::with(&own, CpuCache::part, |stack| stack.push(&own.tally, word));
        if pushed != Some(true) {
            self.stock_slow(own, word);
        }
    }

    /// The cache is full: its coldest lot goes back. Or it is claimed: then the frame itself.
    #[cold]
    #[inline(never)]
    fn stock_slow(&self, own: OwnCache<'_, M::Cpu>, frame: u64) {
        let gives = |frames: &[u64]| {
            own.went_out.add_own(frames.len() as u64);
            self.give_back(frames);
        };
        let shifted = AsymmetricCell::with(&own, CpuCache::part, |stack| {
            let mut batch = [0; MOST];
            let taken = stack.shift(&own.tally, &mut batch[..own.next_lot(Way::Out)]);
            stack.push(&own.tally, frame);
            // Inside, so that a claimant finds these frames in the stack or in the zone.
            gives(&batch[..taken]);
        });
        if shifted.is_none() {
            gives(&[frame]);
        }
    }

    /// Cached frames go back to their zones, neighbours in the batch under one lock.
    fn give_back(&self, frames: &[u64]) {
        if let [zone] = self.zones {
            return zone.give_frames(&self.table, frames);
        }
        let zone = |word: u64| self.zone_of(unpack(word).0);
        for run in frames.chunk_by(|&a, &b| core::ptr::eq(zone(a), zone(b))) {
            zone(run[0]).give_frames(&self.table, run);
        }
    }

    /// Somebody frees what is not theirs: it stays as it is.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&self, pfn: Pfn) {
        self.refused.fetch_add(1, Relaxed);
        debug_assert!(false, "{pfn:?} is not there to be freed: {:?}", self.meta(pfn));
    }
}

/// The record of a frame that its holder owns alone says from now on that it is in a cache. Returns the word
/// for the cache.
#[inline(always)]
pub(super) fn shelve<C: Cpu>(meta: &FrameMeta<C>, pfn: Pfn, init: Init) -> u64 {
    debug_assert_eq!((meta.mapcount(), meta.pincount()), (0, 0), "{pfn:?} is freed while in use");
    meta.set_state(FrameState::cached(init));
    pack((pfn, init))
}
