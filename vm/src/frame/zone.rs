//! The free memory of one node, under one lock.
//!
//! | lock | rank | guards |
//! |---|---|---|
//! | `Zone::buddy` | `lockdep::ZONE` | the lists, and every record that is `Free` or becomes so |
//!
//! It is held for one block, or one batch of frames, at a time; nothing is waited for under it.

use super::buddy::{Buddy, Chain, ORDERS};
use super::watermark::{Priority, Watermark};
use super::{FrameTable, Init};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{SpinLock, lockdep};
use crate::units::{NodeId, Order, Pfn, PfnRange};

/// The free memory of one node, on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Zone<C: Cpu> {
    index: u8,
    node: NodeId,
    managed: u64,
    watermark: Watermark,
    /// Frames that the zone is still to get. Release after they were given, pairs with the acquire of who
    /// found none.
    waiting: AtomicU64<C>,
    buddy: SpinLock<Buddy<C>, C, { lockdep::ZONE.0 }>,
}

impl<C: Cpu> Zone<C> {
    /// A zone that is going to get `managed` frames.
    pub(super) fn new(index: u8, node: NodeId, managed: u64) -> Self {
        let buddy = SpinLock::new(Buddy::new(index));
        Self {
            index,
            node,
            managed,
            watermark: Watermark::for_frames(managed),
            waiting: AtomicU64::new(0),
            buddy,
        }
    }

    /// Notes at start that so many frames are going to be given later.
    pub(super) fn expect_frames(&self, frames: u64) {
        self.waiting.store(self.waiting.load(Relaxed) + frames, Relaxed);
    }

    /// Frames that the zone is still to get. Zero says that all were given before.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Acquire)
    }

    /// Whether the zone is still to get frames, and `priority` may have 2^order of what there will be. Asked
    /// *before* a look: what arrives in between is found by the next one.
    pub(super) fn may_grow(&self, order: Order, priority: Priority) -> bool {
        let waiting = self.waiting();
        let free = || waiting + self.buddy.lock().free();
        waiting > 0
            && priority > Priority::NoWait
            && self.watermark.allows(free(), priority) >= order.frames()
    }

    /// Hangs in blocks that the zone was waiting for.
    pub(super) fn add_chain(&self, table: &FrameTable<C>, chain: Chain) {
        let counts_first = mutant!("zone.counted-before-given");
        if counts_first {
            self.waiting.fetch_sub(chain.frames(), Release);
        }
        self.buddy.lock().give_chain(table, &chain);
        if !counts_first {
            self.waiting.fetch_sub(chain.frames(), Release);
        }
    }

    /// Begins a chain of blocks for this zone.
    pub(super) fn chain(&self) -> Chain {
        Chain::new(self.index)
    }

    /// Hands a range of never used frames to the zone, at start.
    pub(super) fn add(&self, table: &FrameTable<C>, frames: PfnRange, init: Init) {
        self.buddy.lock().give_range(table, frames.start, frames.end, init);
    }

    /// The node whose memory this is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Frames that are the zone's, those it is still to get among them.
    pub fn managed(&self) -> u64 {
        self.managed
    }

    /// How much is kept back.
    pub fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// Free blocks by order; whole at the moment of the look.
    pub fn free_blocks(&self) -> [u64; ORDERS] {
        let buddy = self.buddy.lock();
        core::array::from_fn(|order| buddy.count(order))
    }

    /// Takes a block, where the watermark lets `priority` have it.
    pub(super) fn take(
        &self,
        table: &FrameTable<C>,
        order: Order,
        priority: Priority,
    ) -> Option<(Pfn, Init)> {
        let mut buddy = self.buddy.lock();
        if self.watermark.allows(self.coming(&buddy), priority) < order.frames() {
            return None;
        }
        buddy.take(table, order)
    }

    /// Takes up to `frames.len()` frames for a CPU's cache. What only the reserve may have is taken one by
    /// one, so that it does not end up with everybody else who uses the cache. Returns how many.
    pub(super) fn take_run(&self, table: &FrameTable<C>, frames: &mut [u64], priority: Priority) -> usize {
        let mut buddy = self.buddy.lock();
        let coming = self.coming(&buddy);
        let shared = self.watermark.allows(coming, priority.min(Priority::Normal));
        let own = self.watermark.allows(coming, priority).min(1);
        let most = (frames.len() as u64).min(shared.max(own)) as usize;
        buddy.take_run(table, &mut frames[..most])
    }

    /// What the watermark counts: frames that wait are one growth away from being free.
    fn coming(&self, buddy: &Buddy<C>) -> u64 {
        if mutant!("zone.deferred-not-counted") {
            return buddy.free();
        }
        buddy.free() + self.waiting.load(Relaxed)
    }

    /// Gives a block back.
    pub(super) fn give(&self, table: &FrameTable<C>, pfn: Pfn, order: Order, init: Init) {
        self.buddy.lock().give(table, pfn, order, init);
    }

    /// Gives single frames back, packed as in a CPU's cache.
    pub(super) fn give_frames(&self, table: &FrameTable<C>, frames: &[u64]) {
        self.buddy.lock().give_frames(table, frames);
    }

    /// Looks at the lists, which stand still meanwhile.
    pub(super) fn inspect<R>(&self, look: impl FnOnce(&Buddy<C>) -> R) -> R {
        look(&self.buddy.lock())
    }
}
