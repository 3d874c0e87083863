//! Blocks of the largest order, linked before the lock of their region is taken.

use super::buddy::record;
use crate::frame::{FrameState, FrameTable, Init};
use crate::machine::Cpu;
use crate::units::{Order, Pfn};

/// Blocks of the largest order, which have nothing to merge with, linked through their records. No other CPU
/// knows them until they are [spliced](super::Buddy::splice) into a free list.
#[derive(Debug)]
pub(in crate::frame) struct BlockList {
    zone: u8,
    ends: Option<(Pfn, Pfn)>,
    len: u64,
}

impl BlockList {
    /// An empty list, for the zone of this index.
    pub fn new(zone: u8) -> Self {
        Self { zone, ends: None, len: 0 }
    }

    /// Appends a block that the caller has claimed. Its record is written whole.
    pub fn push<C: Cpu>(&mut self, table: &FrameTable<C>, pfn: Pfn, init: Init) {
        let meta = record(table, pfn);
        let before = self.last();
        meta.set_state(FrameState::free(self.zone, Order::MAX, init));
        meta.set_prev(before);
        if let Some(before) = before
            && !mutant!("zone.block-list-not-linked")
        {
            record(table, before).set_next(Some(pfn));
        }
        self.ends = Some((self.ends.map_or(pfn, |(first, _)| first), pfn));
        self.len += 1;
    }

    /// The block pushed last.
    pub fn last(&self) -> Option<Pfn> {
        self.ends.map(|(_, last)| last)
    }

    /// First and last block.
    pub(super) fn ends(&self) -> Option<(Pfn, Pfn)> {
        self.ends
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Frames in all its blocks.
    pub fn frames(&self) -> u64 {
        self.len * Order::MAX.frames()
    }
}
