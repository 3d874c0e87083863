//! Where records lie: pieces of memory, each with the records of consecutive frames.

use super::FrameTable;
use crate::machine::Cpu;
use crate::units::{NodeId, PAGE_SIZE, PfnRange, PhysAddr};

/// Frames whose records fill a page.
pub(in crate::frame) const RECORDS_IN_PAGE: u64 = PAGE_SIZE as u64 / RECORD_BYTES;
/// Bytes of a record.
pub(in crate::frame) const RECORD_BYTES: u64 = 32;

/// The records of consecutive frames in one piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordExtent {
    /// The frames whose records lie here, holes included.
    pub frames: PfnRange,
    /// The node of the frames: in each page of records, of the first usable one.
    pub node: NodeId,
    /// The first byte of the memory.
    pub memory: PhysAddr,
    /// The node of the memory: another than `node` where that had too little in one piece, or where the
    /// platform has no record window.
    pub memory_node: NodeId,
}

impl RecordExtent {
    /// Bytes of records.
    pub fn len_bytes(&self) -> u64 {
        self.frames.len().saturating_mul(RECORD_BYTES)
    }

    /// Whether the records lie on the node of the frames that they describe.
    pub fn is_near(&self) -> bool {
        self.node == self.memory_node
    }
}

impl<C: Cpu> FrameTable<'_, C> {
    /// Where the records lie, by ascending number of the frame.
    pub(in crate::frame) fn extents(&self) -> &[RecordExtent] {
        self.extents
    }

    /// The parts of `frames` whose records have memory.
    pub(super) fn parts(&self, frames: PfnRange) -> impl Iterator<Item = PfnRange> {
        let from = self.extents.partition_point(|extent| extent.frames.end <= frames.start);
        let rest = self.extents[from..].iter().take_while(move |extent| extent.frames.start < frames.end);
        rest.map(move |extent| extent.frames.intersect(frames))
    }

    /// Holes whose records have no memory: the record window reads as zeroes there. By ascending address;
    /// whole blocks of the largest order.
    pub(in crate::frame) fn without_memory(&self) -> impl Iterator<Item = PfnRange> {
        let gap = |pair: &[RecordExtent]| PfnRange::new(pair[0].frames.end, pair[1].frames.start);
        self.extents.windows(2).map(gap).filter(|gap| !gap.is_empty())
    }
}
