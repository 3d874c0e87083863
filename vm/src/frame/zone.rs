//! The free memory of one node, under one lock.
//!
//! | lock | rank | guards |
//! |---|---|---|
//! | `Zone::buddy` | `ladder::ZONE` | the lists, and every record that is `Free` or becomes so |
//!
//! It is held for one block, or one batch of frames, at a time; nothing is waited for under it.

use super::buddy::{Buddy, ORDERS};
use super::watermark::{Priority, Watermark};
use super::{FrameTable, Init};
use crate::machine::Cpu;
use crate::sync::{SpinLock, ladder};
use crate::units::{NodeId, Order, Pfn, PfnRange};

/// The free memory of one node, on lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Zone<C: Cpu> {
    node: NodeId,
    managed: u64,
    watermark: Watermark,
    buddy: SpinLock<Buddy<C>, C, { ladder::ZONE.0 }>,
}

impl<C: Cpu> Zone<C> {
    /// A zone that is going to get `managed` frames.
    pub(super) fn new(index: u8, node: NodeId, managed: u64) -> Self {
        let buddy = SpinLock::new(Buddy::new(index));
        Self { node, managed, watermark: Watermark::for_frames(managed), buddy }
    }

    /// Hands a range of never used frames to the zone, at start.
    pub(super) fn add(&self, table: &FrameTable<C>, frames: PfnRange, init: Init) {
        self.buddy.lock().give_range(table, frames.start, frames.end, init);
    }

    /// The node whose memory this is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Frames that the zone was given at start.
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
        if self.watermark.allows(buddy.free(), priority) < order.frames() {
            return None;
        }
        buddy.take(table, order)
    }

    /// Takes up to `frames.len()` frames for a CPU's cache. What only the reserve may have is taken one by one, so that it
    /// does not end up with everybody else who uses the cache. Returns how many.
    pub(super) fn take_run(&self, table: &FrameTable<C>, frames: &mut [u64], priority: Priority) -> usize {
        let mut buddy = self.buddy.lock();
        let shared = self.watermark.allows(buddy.free(), priority.min(Priority::Ordinary));
        let own = self.watermark.allows(buddy.free(), priority).min(1);
        let most = (frames.len() as u64).min(shared.max(own)) as usize;
        buddy.take_run(table, &mut frames[..most])
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
