//! Deferred initialisation: frame records that are written when their block is first needed.
//!
//! ```text
//!                                                               records written,
//!        memory as it was found       one CPU writes it         in the zone's list
//!      ┌────────────────┐   claim   ┌───────────────┐   free    ┌────────────────────┐
//!      │   unclaimed    │──────────►│    claimed    │──────────►│       free ...     │
//!      └────────────────┘  one bit  └───────────────┘ zone lock └────────────────────┘
//! ```
//!
//! The unit is a block of the largest order: a merge never looks beyond one, and a lockless walker looks only
//! at frames that were allocated. Blocks that contain the edge of a region are initialised at start; deferred
//! ones are wholly usable or hold no usable frame. An allocation that finds its zone empty claims one or two
//! (`on_demand`; Linux: `deferred_grow_zone`), a job claims all (`job`). A claim is one exchange of the
//! section's word, so no two CPUs write the same record.
//!
//! From the claim until the block is freed to its zone preemption is off, and the CPU waits for nothing but
//! the region's lock. So an allocation may wait for claimed blocks: the CPU that claimed them is running.
//!
//! | file | holds |
//! |---|---|
//! | `range` | [`DeferredRange`]: which blocks are deferred, a pure decision |
//! | `claims` | [`ClaimBitmap`]: which of them are claimed |
//! | `on_demand` | an allocation initialises blocks of its zone |
//! | `job` | a job initialises everything |
//!
//! docs/design/deferred.md has the details.

mod claims;
mod job;
mod on_demand;
mod range;

#[cfg(all(test, loom))]
#[path = "../../tests/loom_deferred.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "../../tests/deferred.rs"]
mod tests;
#[cfg(all(test, not(loom)))]
#[path = "../../tests/unwritten.rs"]
mod unwritten_tests;

pub(super) use claims::ClaimBitmap;
pub use claims::SECTION_FRAMES;
pub use job::NodeInitReport;
pub(super) use range::gaps;
use range::whole_blocks;
pub(super) use range::{DeferredRange, max_deferred_ranges, plan_deferred};

use crate::frame::{Init, Memory};
use crate::machine::{Cpu, Machine};
use crate::sync::PreemptGuard;
use crate::units::{Order, Pfn, PfnRange};
use claims::ClaimedBlocks;
use core::fmt;

/// The name of the [event](Machine::event) of a block whose records this CPU has written; its value is the
/// block's first frame that has a record.
pub const RECORDS_WRITTEN: &str = "records written";

/// All deferred records.
#[derive(Debug)]
pub(in crate::frame) struct Deferred<'m, C: Cpu> {
    ranges: &'m [DeferredRange<C>],
    claims: ClaimBitmap<'m, C>,
    /// Initial contents of the memory of the records.
    init: Init,
}

impl<'m, C: Cpu> Deferred<'m, C> {
    /// Ranges by ascending address, and the initial contents of the memory of their records.
    pub fn new(ranges: &'m [DeferredRange<C>], claims: ClaimBitmap<'m, C>, init: Init) -> Self {
        Self { ranges, claims, init }
    }

    /// The deferred ranges, by ascending address.
    pub fn ranges(&self) -> &'m [DeferredRange<C>] {
        self.ranges
    }

    /// Whether records must be written: their memory is not zeroed.
    pub fn must_write(&self) -> bool {
        self.init == Init::Dirty
    }

    /// Notes that the records of all frames of `span` are written, but for those of deferred blocks.
    pub fn note_written_at_start(&self, span: PfnRange) {
        let size = Order::MAX.frames();
        let end = span.end.0.checked_next_multiple_of(size).map_or(span.end, Pfn);
        let span = PfnRange::new(Pfn(span.start.0 / size * size), end);
        let written = gaps(span, self.ranges.iter().map(|range| range.frames));
        written.for_each(|frames| self.claims.note_all_written(frames));
    }

    /// Whether the record of a frame is written, so that any CPU may look it up: it is not in a deferred
    /// block, or the block was claimed and initialised.
    #[inline]
    pub fn is_written(&self, pfn: Pfn) -> bool {
        self.claims.is_written(pfn) || mutant!("deferred.unwritten-record-found")
    }

    /// Whether the block that starts at `pfn`, a multiple of its size, is deferred and unclaimed; stale at
    /// once.
    pub fn is_unclaimed(&self, pfn: Pfn) -> bool {
        let after = self.ranges.partition_point(|range| range.frames.start <= pfn);
        let range = after.checked_sub(1).map(|at| self.ranges[at].frames);
        let block = PfnRange::new(pfn, pfn.add(Order::MAX.frames()));
        range.is_some_and(|frames| frames.covers(block))
            && self.claims.unclaimed(claims::section_of(pfn), block) != 0
    }
}

/// The deferred initialisation of a memory's frame records.
pub struct DeferredInit<'m, M: Machine> {
    memory: &'m Memory<'m, M>,
}

impl<M: Machine> Memory<'_, M> {
    /// The initialisation of the records that are deferred.
    #[inline]
    pub fn deferred(&self) -> DeferredInit<'_, M> {
        DeferredInit { memory: self }
    }
}

impl<M: Machine> DeferredInit<'_, M> {
    /// Claims up to `most` blocks of a range in a section, writes their records, and frees the blocks to
    /// their zone. Returns how many; 0 where all are claimed.
    fn initialise_blocks(self, range: &DeferredRange<M::Cpu>, section: u64, most: u32) -> u32 {
        self.initialise_part(range, range.frames, section, most)
    }

    /// As [`initialise_blocks`](Self::initialise_blocks), of a part of the range.
    fn initialise_part(self, range: &DeferredRange<M::Cpu>, part: PfnRange, section: u64, most: u32) -> u32 {
        let _preempt_off = PreemptGuard::<M::Cpu>::new();
        let claimed = self.memory.deferred.claims.claim(section, part, most);
        if let Some(claimed) = claimed {
            if mutant!("deferred.written-noted-early") {
                self.memory.deferred.claims.note_written(claimed);
                // Models let other threads run here only, between two accesses.
                M::Cpu::relax();
            }
            self.write_records(claimed);
            self.memory.deferred.claims.note_written(claimed);
            self.free_claimed(range, claimed);
        }
        claimed.map_or(0, |claimed| claimed.blocks.count_ones())
    }

    fn write_records(self, claimed: ClaimedBlocks) {
        if self.memory.deferred.must_write() {
            claimed
                .ranges()
                .for_each(|frames| self.clear_claimed(frames.intersect(self.memory.table.span())));
        }
    }

    /// Clears the records of claimed blocks, as far as the table has them: of its first block and its last
    /// one it may have a part.
    fn clear_claimed(self, frames: PfnRange) {
        let whole = whole_blocks(frames);
        let before = PfnRange::new(frames.start, whole.start.min(frames.end));
        let after = PfnRange::new(whole.end.max(before.end), frames.end);
        // SAFETY: the three are parts of the table, in which the records of a block start on a page of their
        // own where any are deferred. They have memory: deferred ranges leave out what has none. The claim
        // says that no other CPU writes these records. They were not looked up, and are not before they are
        // noted as written: `Memory::meta` refuses them, and to zones, caches and values their frames come by
        // `free_claimed` only, after that. The middle part is whole blocks.
        unsafe {
            self.memory.table.clear(before);
            if !whole.is_empty() {
                self.memory.table.clear_blocks(self.memory.machine, whole);
            }
            self.memory.table.clear(after);
        }
        for block in (frames.start.0..frames.end.0).step_by(Order::MAX.frames() as usize) {
            self.memory.machine.event(RECORDS_WRITTEN, block);
        }
    }

    fn free_claimed(self, range: &DeferredRange<M::Cpu>, claimed: ClaimedBlocks) {
        let Some(init) = range.usable else { return };
        let zone = &self.memory.zones[range.zone as usize];
        let mut blocks = zone.block_list();
        for frames in claimed.ranges() {
            let heads = (frames.start.0..frames.end.0).step_by(Order::MAX.frames() as usize);
            for pfn in heads.map(Pfn) {
                if blocks.last().is_some_and(|last| !zone.are_of_one_region(last, pfn)) {
                    zone.free_deferred(&self.memory.table, &blocks);
                    blocks = zone.block_list();
                }
                blocks.push(&self.memory.table, pfn, init);
            }
        }
        zone.free_deferred(&self.memory.table, &blocks);
    }
}

impl<M: Machine> Clone for DeferredInit<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for DeferredInit<'_, M> {}

impl<M: Machine> fmt::Debug for DeferredInit<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} deferred frames, {} of them unclaimed", self.frames(), self.unclaimed_frames())
    }
}
