//! Zones: the free memory of each node, under one lock each.
//!
//! | file | holds |
//! |---|---|
//! | this one | [`Zone`]: the lock, and allocation down to the watermark |
//! | `buddy` | [`Buddy`]: free blocks by order, split and merged |
//! | `block_list` | [`BlockList`]: blocks linked beforehand, to be freed in one step |
//! | `distance` | [`DistanceList`]: which zones an allocation asks, nearest first |
//! | `watermark` | [`Watermark`]: how much is kept back, by priority |
//!
//! | lock | rank | guards |
//! |---|---|---|
//! | `Zone::buddy` | `lockdep::ZONE` | the lists, and every record that is `Free` or becomes so |
//!
//! It is held for one block, or one batch of frames, at a time; its holder waits for nothing.

mod block_list;
mod buddy;
mod distance;
mod watermark;

pub(in crate::frame) use block_list::BlockList;
pub(in crate::frame) use buddy::{Buddy, ORDERS};
pub(in crate::frame) use distance::{DistanceList, nearest_zone, sort_by_distance};
pub use watermark::Watermark;

use crate::frame::huge_pool::PoolList;
use crate::frame::huge_zero::HugeZeroCell;
use crate::frame::zero_table::ZeroTableCell;
use crate::frame::{FrameTable, Init, Priority};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{CacheAligned, SpinLock, lockdep};
use crate::units::{NodeId, Order, Pfn, PfnRange};

/// The free memory of one node, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Zone<C: Cpu> {
    index: u8,
    node: NodeId,
    managed: u64,
    watermark: Watermark,
    /// Frames that are deferred: not freed to the zone yet. Lowered with release after they were freed; pairs
    /// with the acquire of an allocation that found none.
    deferred: AtomicU64<C>,
    /// On a line of its own: loads of untouched memory read it.
    huge_zero: CacheAligned<HugeZeroCell<C>>,
    /// The table of zeros, in the place of that page.
    zero_table: ZeroTableCell<C>,
    /// The order of the largest block that was free when the lock was last released, plus one; 0 where none
    /// was. Written under the lock, when it changes; read without, as a hint.
    largest_block: CacheAligned<AtomicU64<C>>,
    /// The node's part of the reserved pool, by size; guarded by the lock of that.
    huge_pool: [PoolList<C>; 2],
    buddy: SpinLock<Buddy<C>, C, { lockdep::ZONE.0 }>,
}

/// Usable frames of one region, and the zone that they belong to.
#[derive(Clone, Copy, Debug)]
pub(in crate::frame) struct ZoneRange {
    pub frames: PfnRange,
    pub zone: u8,
}

impl<C: Cpu> Zone<C> {
    /// A zone without free frames, which is going to manage `managed` frames.
    pub(in crate::frame) fn new(index: u8, node: NodeId, managed: u64) -> Self {
        let (buddy, deferred) = (SpinLock::new(Buddy::new(index)), AtomicU64::new(0));
        let (watermark, huge_zero) = (Watermark::for_frames(managed), CacheAligned(HugeZeroCell::new()));
        let largest_block = CacheAligned(AtomicU64::new(0));
        let huge_pool = [const { PoolList::new() }; 2];
        Self {
            index,
            node,
            managed,
            watermark,
            deferred,
            huge_zero,
            zero_table: ZeroTableCell::new(),
            largest_block,
            huge_pool,
            buddy,
        }
    }

    /// The node of the zone's memory.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The word of the node's huge zero page; without pages for each node, that of the first zone is used.
    pub(in crate::frame) fn huge_zero(&self) -> &HugeZeroCell<C> {
        &self.huge_zero
    }

    /// The word of the node's table of zeros, as of the huge zero page.
    pub(in crate::frame) fn zero_table(&self) -> &ZeroTableCell<C> {
        &self.zero_table
    }

    /// The folios of the reserved pool of one size that lie on this node.
    pub(in crate::frame) fn huge_pool(&self, size: usize) -> &PoolList<C> {
        &self.huge_pool[size]
    }

    /// Frames that the zone manages, deferred ones among them.
    pub fn managed(&self) -> u64 {
        self.managed
    }

    /// The zone's watermarks.
    pub fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// Number of free blocks by order, all read at one moment.
    pub fn free_blocks(&self) -> [u64; ORDERS] {
        let buddy = self.buddy.lock();
        core::array::from_fn(|order| buddy.nr_blocks(order))
    }

    /// Frames that are deferred. Zero says that all were freed to the zone before.
    pub fn deferred(&self) -> u64 {
        self.deferred.load(Acquire)
    }

    /// Whether a block of `order` or more was free, or about to be initialised, a moment ago. Takes no lock.
    /// Relaxed: a hint, after which the caller does without a block or asks for one.
    pub(in crate::frame) fn may_have_block(&self, order: Order) -> bool {
        self.largest_block.load(Relaxed) > u64::from(order.0) || self.deferred.load(Relaxed) > 0
    }

    /// Edits the lists under the lock.
    fn edit<R>(&self, edit: impl FnOnce(&mut Buddy<C>) -> R) -> R {
        let mut buddy = self.buddy.lock();
        let result = edit(&mut buddy);
        let largest = buddy.largest().map_or(0, |order| u64::from(order.0) + 1);
        if self.largest_block.load(Relaxed) != largest && !mutant!("zone.largest-block-not-noted") {
            self.largest_block.store(largest, Relaxed);
        }
        result
    }

    /// Allocates a block, where the watermark allows it.
    pub(in crate::frame) fn alloc(
        &self,
        table: &FrameTable<C>,
        order: Order,
        priority: Priority,
    ) -> Option<(Pfn, Init)> {
        self.edit(|buddy| {
            let allowed = self.watermark.allows(self.free_and_deferred(buddy), priority);
            if allowed < order.frames() { None } else { buddy.alloc(table, order) }
        })
    }

    /// Allocates the block of `order`, more than [`Order::MAX`], that starts at `pfn`, if it is free, its
    /// records are written and the watermark allows it.
    pub(in crate::frame) fn alloc_run(&self, table: &FrameTable<C>, pfn: Pfn, order: Order) -> Option<Init> {
        self.edit(|buddy| {
            let allowed = self.watermark.allows(self.free_and_deferred(buddy), Priority::Normal);
            if allowed < order.frames() { None } else { buddy.alloc_run(table, pfn, order) }
        })
    }

    /// Allocates up to `frames.len()` frames for a CPU's cache, packed. Frames of the reserve are allocated
    /// one by one, so that the cache does not offer them to requests of lower priority. Returns how many.
    pub(in crate::frame) fn alloc_batch(
        &self,
        table: &FrameTable<C>,
        frames: &mut [u64],
        priority: Priority,
    ) -> usize {
        self.edit(|buddy| {
            let free = self.free_and_deferred(buddy);
            let for_all = self.watermark.allows(free, priority.min(Priority::Normal));
            let for_this = self.watermark.allows(free, priority).min(1);
            let most = (frames.len() as u64).min(for_all.max(for_this)) as usize;
            buddy.alloc_batch(table, &mut frames[..most])
        })
    }

    /// Frees a block.
    pub(in crate::frame) fn free(&self, table: &FrameTable<C>, pfn: Pfn, order: Order, init: Init) {
        self.edit(|buddy| buddy.free(table, pfn, order, init));
    }

    /// Frees single frames, packed as in a CPU's cache.
    pub(in crate::frame) fn free_batch(&self, table: &FrameTable<C>, frames: &[u64]) {
        self.edit(|buddy| buddy.free_batch(table, frames));
    }

    /// Frees a range of frames: at start, or of a block that was larger than the largest.
    pub(in crate::frame) fn free_range(&self, table: &FrameTable<C>, frames: PfnRange, init: Init) {
        self.edit(|buddy| buddy.free_range(table, frames.start, frames.end, init));
    }

    /// Notes at start the number of deferred frames.
    pub(in crate::frame) fn expect_deferred(&self, frames: u64) {
        self.deferred.store(self.deferred.load(Relaxed) + frames, Relaxed);
    }

    /// Whether frames of the zone are deferred, and `priority` may have 2^order frames once they are free.
    /// Called *before* a search: frames that arrive in between are found by the next search.
    pub(in crate::frame) fn may_initialise(&self, order: Order, priority: Priority) -> bool {
        let deferred = self.deferred();
        let free = || deferred + self.buddy.lock().free_frames();
        deferred > 0
            && priority > Priority::NoWait
            && self.watermark.allows(free(), priority) >= order.frames()
    }

    /// An empty list of blocks for this zone.
    pub(in crate::frame) fn block_list(&self) -> BlockList {
        BlockList::new(self.index)
    }

    /// Frees blocks that were deferred.
    pub(in crate::frame) fn free_deferred(&self, table: &FrameTable<C>, blocks: BlockList) {
        let counts_first = mutant!("zone.counted-before-freed");
        if counts_first {
            self.deferred.fetch_sub(blocks.frames(), Release);
        }
        self.edit(|buddy| buddy.splice(table, &blocks));
        if !counts_first {
            self.deferred.fetch_sub(blocks.frames(), Release);
        }
    }

    /// The frames that the watermark counts: a deferred frame can be free as soon as it is needed.
    fn free_and_deferred(&self, buddy: &Buddy<C>) -> u64 {
        if mutant!("zone.deferred-not-counted") {
            return buddy.free_frames();
        }
        buddy.free_frames() + self.deferred.load(Relaxed)
    }

    /// Calls `inspect` with the lists, under the lock.
    pub(in crate::frame) fn inspect<R>(&self, inspect: impl FnOnce(&Buddy<C>) -> R) -> R {
        inspect(&self.buddy.lock())
    }
}
