//! Free blocks of a zone: one list for each order, linked through the records of the heads.
//!
//! A block of order n starts at a multiple of 2^n; its buddy is the other half of the block of order n + 1
//! that holds both. Taking splits the smallest block that is large enough and keeps the first part, so
//! addresses ascend; giving merges with the buddy while that is a free block of the same order and zone.
//! Nothing but the heads' records is touched, so a block of 4 MiB costs what a frame costs.
//!
//! Everything here runs under the zone's lock. Only there does a record become, or cease to be, `Free`; so
//! the state of a buddy outside the lists may change meanwhile, but never to or from what a merge looks for.

use super::cache::{pack, unpack};
use super::meta::Links;
use super::state::buddy_of;
use super::{FrameMeta, FrameState, FrameTable, Init};
use crate::machine::Cpu;
use crate::sync::Plain;
use crate::units::{Order, Pfn};

/// Orders 0 to [`Order::MAX`].
pub(super) const ORDERS: usize = Order::MAX.0 as usize + 1;

/// The free lists of a zone.
#[derive(Debug)]
pub(super) struct Buddy<C: Cpu> {
    zone: u8,
    lists: [List<C>; ORDERS],
    /// Frames in all lists.
    free: Plain<u64, C>,
}

/// Free blocks of one order.
#[derive(Debug)]
struct List<C: Cpu> {
    head: Plain<Option<Pfn>, C>,
    count: Plain<u64, C>,
}

impl<C: Cpu> Buddy<C> {
    /// No blocks.
    pub fn new(zone: u8) -> Self {
        let list = || List { head: Plain::new(None), count: Plain::new(0) };
        Self { zone, lists: core::array::from_fn(|_| list()), free: Plain::new(0) }
    }

    /// Frames in all lists.
    pub fn free(&self) -> u64 {
        self.free.get()
    }

    /// Blocks of `order`.
    pub fn count(&self, order: usize) -> u64 {
        self.lists[order].count.get()
    }

    /// First block of `order`.
    pub fn head(&self, order: usize) -> Option<Pfn> {
        self.lists[order].head.get()
    }

    /// Takes a block of `order`, splitting a larger one if need be. The head's record is `Reserved`.
    pub fn take(&mut self, table: &FrameTable<C>, order: Order) -> Option<(Pfn, Init)> {
        let mut found = (order.0..ORDERS as u8).map(Order).find(|o| self.head(o.0 as usize).is_some())?;
        let pfn = self.head(found.0 as usize)?;
        let init = self.unlink(table, pfn, found);
        while found > order {
            found = Order(found.0 - 1);
            self.link(table, pfn.add(found.frames()), found, init);
        }
        Some((pfn, init))
    }

    /// Takes up to `frames.len()` single frames, packed, in as few blocks as there are. Returns how many.
    pub fn take_run(&mut self, table: &FrameTable<C>, frames: &mut [u64]) -> usize {
        let mut taken = 0;
        while let Some(order) = (frames.len() - taken).checked_ilog2() {
            let block = (0..=order as u8).rev().find_map(|o| Some((o, self.take(table, Order(o))?)));
            let Some((order, (pfn, init))) = block else { break };
            let block = &mut frames[taken..taken + (1 << order)];
            block.iter_mut().zip(pack((pfn, init))..).for_each(|(frame, word)| *frame = word);
            taken += block.len();
        }
        taken
    }

    /// Gives a block, merging it with its buddies.
    pub fn give(&mut self, table: &FrameTable<C>, pfn: Pfn, order: Order, init: Init) {
        let (mut pfn, mut order, mut init) = (pfn, order, init);
        while order < Order::MAX {
            let buddy = buddy_of(pfn, order);
            let free = table.meta(buddy).is_some_and(|meta| meta.state().is_free_block(self.zone, order));
            if !free || mutant!("buddy.never-merged") {
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

    /// Gives single frames, packed. Neighbours that come in order, up or down, as frames do that were taken
    /// together, go as whole blocks: of those only the heads' records are written.
    pub fn give_frames(&mut self, table: &FrameTable<C>, frames: &[u64]) {
        let mut rest = frames;
        while !rest.is_empty() {
            let (run, after) = rest.split_at(run_length(rest));
            rest = after;
            let ((first, init), (last, _)) = (unpack(run[0]), unpack(run[run.len() - 1]));
            self.give_range(table, first.min(last), first.max(last).add(1), init);
        }
    }

    /// Gives all frames from `start` to `end`, in the largest aligned blocks, touching nothing but their
    /// heads.
    pub fn give_range(&mut self, table: &FrameTable<C>, start: Pfn, end: Pfn, init: Init) {
        let mut at = start;
        while at < end {
            let aligned = at.0.trailing_zeros().min(Order::MAX.0 as u32) as u8;
            let fits = (end.0 - at.0).ilog2() as u8;
            let order = Order(aligned.min(fits));
            self.give(table, at, order, init);
            at = at.add(order.frames());
        }
    }

    /// Hangs in a chain: two stores into records, however long it is.
    pub fn give_chain(&mut self, table: &FrameTable<C>, chain: &Chain) {
        let Some((first, last)) = chain.ends else { return };
        let list = &mut self.lists[Order::MAX.0 as usize];
        let next = list.head.get();
        record(table, last).set_next(next);
        if let Some(next) = next {
            record(table, next).set_prev(Some(last));
        }
        list.head.set(Some(first));
        list.count.set(list.count.get() + chain.blocks);
        self.free.set(self.free.get() + chain.frames());
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
        list.count.set(list.count.get() + 1);
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
        list.count.set(list.count.get() - 1);
        self.free.set(self.free.get() - order.frames());
        let init = meta.state().init();
        meta.set_state(FrameState::RESERVED);
        init
    }
}

/// Blocks of the largest order, which have nothing to merge with, linked before anybody else knows them.
#[derive(Debug)]
pub(super) struct Chain {
    zone: u8,
    ends: Option<(Pfn, Pfn)>,
    blocks: u64,
}

impl Chain {
    /// No blocks, for the zone of this index.
    pub fn new(zone: u8) -> Self {
        Self { zone, ends: None, blocks: 0 }
    }

    /// Adds a block that is the caller's and nobody else's. Its record is written whole.
    pub fn push<C: Cpu>(&mut self, table: &FrameTable<C>, pfn: Pfn, init: Init) {
        let meta = record(table, pfn);
        let before = self.ends.map(|(_, last)| last);
        meta.set_state(FrameState::free(self.zone, Order::MAX, init));
        meta.set_prev(before);
        if let Some(before) = before
            && !mutant!("buddy.chain-not-linked")
        {
            record(table, before).set_next(Some(pfn));
        }
        self.ends = Some((self.ends.map_or(pfn, |(first, _)| first), pfn));
        self.blocks += 1;
    }

    /// Frames in all its blocks.
    pub fn frames(&self) -> u64 {
        self.blocks * Order::MAX.frames()
    }
}

/// How many words from the first are frames in order, one after the other or one before the other, equal in
/// mark.
fn run_length(words: &[u64]) -> usize {
    let [first, second, ..] = *words else { return words.len() };
    let step = second.wrapping_sub(first);
    if step != 1 && step != u64::MAX {
        return 1;
    }
    words.windows(2).take_while(|pair| pair[1].wrapping_sub(pair[0]) == step).count() + 1
}

/// The record of a frame that is in a free list, or about to be: it was checked when it entered the zone.
fn record<C: Cpu>(table: &FrameTable<C>, pfn: Pfn) -> &FrameMeta<C> {
    table.meta(pfn).expect("a free block has a record")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_frames_in_order_with_one_mark() {
        let words = |frames: &[(u64, Init)]| {
            run_length(&frames.iter().map(|&(p, i)| pack((Pfn(p), i))).collect::<std::vec::Vec<_>>())
        };
        let (dirty, zeroed) = (Init::Dirty, Init::Zeroed);
        assert_eq!(words(&[(7, dirty)]), 1);
        assert_eq!(words(&[(7, dirty), (8, dirty), (9, dirty), (11, dirty)]), 3);
        assert_eq!(words(&[(7, dirty), (6, dirty), (5, dirty), (6, dirty)]), 3);
        assert_eq!(words(&[(7, dirty), (8, zeroed)]), 1);
        assert_eq!(words(&[(7, dirty), (7, dirty)]), 1);
    }
}
