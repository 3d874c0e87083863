//! The buddy allocator of a region: one free list for each order, linked through the records of block heads.
//!
//! A block of order n starts at a multiple of 2^n; its buddy is the other half of the block of order n + 1
//! that holds both. Allocation splits the smallest block that is large enough and keeps the first half, so
//! addresses ascend; freeing merges with the buddy while that is a free block of the same order and zone.
//! Only the records of heads are touched, so a block of 4 MiB costs what a frame costs.
//!
//! Everything here runs under the region's lock. Only there does a record of the region become, or cease to
//! be, `Free`; so the state of a buddy outside the lists may change meanwhile, but never to or from a state
//! that a merge looks for. No merge leaves the region.

use super::BlockList;
use crate::frame::percpu::{pack, unpack};
use crate::frame::record::{Links, buddy_of};
use crate::frame::{FrameMeta, FrameState, FrameTable, Init};
use crate::machine::Cpu;
use crate::sync::Plain;
use crate::units::{Order, Pfn, PfnRange};

/// Number of orders, 0 to [`Order::MAX`].
pub(in crate::frame) const ORDERS: usize = Order::MAX.0 as usize + 1;

/// The free lists of a region.
#[derive(Debug)]
pub(in crate::frame) struct Buddy<C: Cpu> {
    /// Index of the zone.
    zone: u8,
    lists: [FreeList<C>; ORDERS],
    /// Frames in all lists.
    free: Plain<u64, C>,
}

/// Free blocks of one order.
#[derive(Debug)]
struct FreeList<C: Cpu> {
    head: Plain<Option<Pfn>, C>,
    len: Plain<u64, C>,
}

impl<C: Cpu> Buddy<C> {
    /// Empty lists.
    pub fn new(zone: u8) -> Self {
        let list = || FreeList { head: Plain::new(None), len: Plain::new(0) };
        Self { zone, lists: core::array::from_fn(|_| list()), free: Plain::new(0) }
    }

    /// Frames in all lists.
    pub fn free_frames(&self) -> u64 {
        self.free.get()
    }

    /// Frames in blocks of less than 2 MiB.
    pub fn fragments(&self) -> u64 {
        let in_blocks = |order: Order| self.nr_blocks(order.0.into()) << order.0;
        self.free.get() - in_blocks(Order::HUGE) - in_blocks(Order::MAX)
    }

    /// Whether a block of `order`, or `frames` single frames, can be had without splitting one of 2 MiB.
    pub fn has_fragments(&self, order: Order, frames: u64) -> bool {
        match order {
            Order::BASE => self.fragments() >= frames,
            order => self.smallest(order, Order(Order::HUGE.0 - 1)).is_some(),
        }
    }

    /// Number of free blocks of `order`.
    pub fn nr_blocks(&self, order: usize) -> u64 {
        self.lists[order].len.get()
    }

    /// First free block of `order`.
    pub fn head(&self, order: usize) -> Option<Pfn> {
        self.lists[order].head.get()
    }

    /// The order of the largest block that is free.
    pub fn largest(&self) -> Option<Order> {
        self.lists.iter().rposition(|list| list.head.get().is_some()).map(|order| Order(order as u8))
    }

    /// The order of the largest free block of less than 2 MiB.
    pub fn largest_fragment(&self) -> Option<Order> {
        (0..Order::HUGE.0).rev().map(Order).find(|order| self.head(order.0 as usize).is_some())
    }

    /// The smallest order of a free block between two orders.
    pub fn smallest(&self, least: Order, most: Order) -> Option<Order> {
        (least.0..=most.0).map(Order).find(|order| self.head(order.0 as usize).is_some())
    }

    /// Allocates the first block of order `found`, and frees all but its first part of `order`. The head's
    /// record is `Reserved`.
    pub fn split(&mut self, table: &FrameTable<C>, mut found: Order, order: Order) -> Option<(Pfn, Init)> {
        let pfn = self.head(found.0 as usize)?;
        let init = self.unlink(table, pfn, found);
        while found > order {
            found = Order(found.0 - 1);
            self.link(table, pfn.add(found.frames()), found, init);
        }
        Some((pfn, init))
    }

    /// Allocates a range of whole blocks of [`Order::MAX`], if all of them are free. The records of their
    /// heads were written. `None`, and no change, where one is not.
    pub fn alloc_run(&mut self, table: &FrameTable<C>, run: PfnRange) -> Option<Init> {
        if !are_free(table, self.zone, run) {
            return None;
        }
        let join = |all, init| if all == init { all } else { Init::Dirty };
        heads(run).map(|head| self.unlink(table, head, Order::MAX)).reduce(join)
    }

    /// Allocates up to `frames.len()` single frames, packed, from as few blocks as possible, and splits no
    /// block of 2 MiB before all smaller ones are used; then none for less than half of the frames, so that
    /// the next batch comes from one block. Returns how many.
    pub fn alloc_batch(&mut self, table: &FrameTable<C>, frames: &mut [u64]) -> usize {
        let mut taken = 0;
        while let Some(most) = (frames.len() - taken).checked_ilog2() {
            let most = Order((most as u8).min(Order::MAX.0));
            let may_split = taken * 2 < frames.len();
            let Some((order, (pfn, init))) = self.alloc_part(table, most, may_split) else { break };
            let block = &mut frames[taken..taken + order.frames() as usize];
            block.iter_mut().zip(pack((pfn, init))..).for_each(|(frame, word)| *frame = word);
            taken += block.len();
        }
        taken
    }

    /// Allocates a block of at most order `most`: the largest that there is in fragments, or else part of a
    /// block of 2 MiB or more, if one may be split.
    fn alloc_part(
        &mut self,
        table: &FrameTable<C>,
        most: Order,
        may_split: bool,
    ) -> Option<(Order, (Pfn, Init))> {
        let part_of = |largest| Some((most, self.smallest(most, largest)?));
        let is_free = |order: &Order| self.head(order.0 as usize).is_some();
        let below = || (0..most.min(Order::HUGE).0).rev().map(Order).find(is_free);
        let fragment = if mutant!("buddy.splits-first") { Order::MAX } else { Order(Order::HUGE.0 - 1) };
        let (order, found) = part_of(fragment)
            .or_else(|| below().map(|order| (order, order)))
            .or_else(|| may_split.then(|| part_of(Order::MAX)).flatten())?;
        Some((order, self.split(table, found, order)?))
    }

    /// Frees a block, merging it with its buddies.
    pub fn free(&mut self, table: &FrameTable<C>, pfn: Pfn, order: Order, init: Init) {
        let (mut pfn, mut order, mut init) = (pfn, order, init);
        while order < Order::MAX {
            let buddy = buddy_of(pfn, order);
            let mergeable =
                table.meta(buddy).is_some_and(|meta| meta.state().is_free_block(self.zone, order));
            if !mergeable || mutant!("buddy.never-merged") {
                break;
            }
            let other = self.unlink(table, buddy, order);
            init = if init == other { init } else { Init::Dirty };
            record(table, pfn.max(buddy)).set_state(FrameState::RESERVED);
            pfn = pfn.min(buddy);
            order = Order(order.0 + 1);
        }
        self.link(table, pfn, order, init);
    }

    /// Frees single frames, packed. Frames that come in ascending or descending order, as those do that were
    /// allocated together, are freed as whole blocks: of those only the heads' records are written.
    pub fn free_batch(&mut self, table: &FrameTable<C>, frames: &[u64]) {
        for (run, init) in ranges(frames) {
            self.free_range(table, run.start, run.end, init);
        }
    }

    /// Frees all frames from `start` to `end`, in the largest aligned blocks. Only the records of their heads
    /// are touched.
    pub fn free_range(&mut self, table: &FrameTable<C>, start: Pfn, end: Pfn, init: Init) {
        let mut at = start;
        while at < end {
            let aligned = at.0.trailing_zeros().min(Order::MAX.0 as u32) as u8;
            let fits = (end.0 - at.0).ilog2() as u8;
            let order = Order(aligned.min(fits));
            self.free(table, at, order, init);
            at = at.add(order.frames());
        }
    }

    /// Frees the blocks of a list: three stores into records, however long it is.
    pub fn splice(&mut self, table: &FrameTable<C>, blocks: &BlockList) {
        let Some((first, last)) = blocks.ends() else { return };
        let list = &mut self.lists[Order::MAX.0 as usize];
        let next = list.head.get();
        record(table, last).set_next(next);
        if let Some(next) = next {
            record(table, next).set_prev(Some(last));
        }
        list.head.set(Some(first));
        list.len.set(list.len.get() + blocks.len());
        self.free.set(self.free.get() + blocks.frames());
    }

    fn link(&mut self, table: &FrameTable<C>, pfn: Pfn, order: Order, init: Init) {
        let list = &mut self.lists[order.0 as usize];
        let next = list.head.get();
        let meta = record(table, pfn);
        meta.set_state(FrameState::free(self.zone, order, init));
        meta.set_prev(None);
        meta.set_next(next);
        if let Some(next) = next {
            record(table, next).set_prev(Some(pfn));
        }
        list.head.set(Some(pfn));
        list.len.set(list.len.get() + 1);
        self.free.set(self.free.get() + order.frames());
    }

    fn unlink(&mut self, table: &FrameTable<C>, pfn: Pfn, order: Order) -> Init {
        let list = &mut self.lists[order.0 as usize];
        let meta = record(table, pfn);
        let Links { prev, next } = meta.links();
        match prev {
            Some(prev) => record(table, prev).set_next(next),
            None => list.head.set(next),
        }
        if let Some(next) = next {
            record(table, next).set_prev(prev);
        }
        list.len.set(list.len.get() - 1);
        self.free.set(self.free.get() - order.frames());
        let init = meta.state().init();
        meta.set_state(FrameState::RESERVED);
        init
    }
}

/// Frames, packed, as ranges with equal marks, in the order in which they come.
pub(super) fn ranges(words: &[u64]) -> impl Iterator<Item = (PfnRange, Init)> {
    let mut rest = words;
    core::iter::from_fn(move || {
        let (run, after) = rest.split_at(run_length(rest));
        rest = after;
        let ((first, init), (last, _)) = (unpack(*run.first()?), unpack(*run.last()?));
        Some((PfnRange::new(first.min(last), first.max(last).add(1)), init))
    })
}

/// Whether frames, packed, are in no order, so that sorting makes fewer ranges of them.
pub(in crate::frame) fn are_scattered(words: &[u64]) -> bool {
    let enough = words.len().div_ceil(8);
    run_length(&words[..enough]) < enough
}

/// Whether a range is whole free blocks of [`Order::MAX`] of the zone. Exact under the lock of their region.
pub(super) fn are_free<C: Cpu>(table: &FrameTable<'_, C>, zone: u8, run: PfnRange) -> bool {
    heads(run).all(|head| record(table, head).state().is_free_block(zone, Order::MAX))
}

/// The first frames of a range's blocks of [`Order::MAX`].
fn heads(run: PfnRange) -> impl Iterator<Item = Pfn> {
    (run.start.0..run.end.0).step_by(Order::MAX.frames() as usize).map(Pfn)
}

/// How many words from the first on are consecutive frames, ascending or descending, with equal marks.
fn run_length(words: &[u64]) -> usize {
    let [first, second, ..] = *words else { return words.len() };
    let step = second.wrapping_sub(first);
    if step != 1 && step != u64::MAX {
        return 1;
    }
    words.windows(2).take_while(|pair| pair[1].wrapping_sub(pair[0]) == step).count() + 1
}

/// The record of a frame that is in a free list, or about to be: it was checked when the zone got it.
pub(super) fn record<'a, C: Cpu>(table: &'a FrameTable<'_, C>, pfn: Pfn) -> &'a FrameMeta<C> {
    table.meta(pfn).expect("a free block has a record")
}

#[cfg(test)]
#[path = "../tests/buddy.rs"]
mod tests;
