//! Which frame records are deferred: a pure decision from the map.

use super::claims::section_of;
use crate::frame::Init;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{Order, Pfn, PfnRange};

/// Whole blocks of each zone that are initialised before the first allocation.
const BLOCKS_AT_START: u64 = 1;

/// Adjacent whole blocks, all of one kind, whose records are deferred.
#[derive(Debug)]
pub(in crate::frame) struct DeferredRange<C: Cpu> {
    pub frames: PfnRange,
    /// Index of the zone that the frames belong to, or whose helpers initialise their records.
    pub zone: u8,
    /// Initial contents of the memory; `None` where it is not usable, and so never freed to a zone.
    pub usable: Option<Init>,
    /// No section before this one has an unclaimed block of the range. Relaxed: a hint, which only grows.
    next: AtomicU64<C>,
}

/// A range of usable frames, the index of its zone, and the initial contents of its memory.
pub(super) type UsableRange = (PfnRange, u8, Init);

/// The most deferred ranges that this number of usable ranges makes.
pub(in crate::frame) const fn max_deferred_ranges(nr_usable: usize) -> usize {
    // Each may be one, and so may the holes before and after, in two parts between them those between.
    3 * nr_usable + 1
}

/// The blocks of the largest order that lie wholly in a range.
pub(in crate::frame) fn whole_blocks(frames: PfnRange) -> PfnRange {
    let size = Order::MAX.frames();
    let down = |pfn: Pfn| Pfn(pfn.0 / size * size);
    let start = Pfn(frames.start.0.next_multiple_of(size));
    let start = if mutant!("deferred.edge-block-deferred") { down(frames.start) } else { start };
    PfnRange::new(start, down(frames.end))
}

/// Calls `each` for every range of `table` that may be deferred, by ascending address: of each usable range
/// the whole blocks, less the first of each zone; of the rest the blocks without any usable frame, the
/// table's first and last ones among them, of which it may hold a part. Those belong to the zone before them,
/// on whose node their records lie.
pub(in crate::frame) fn plan_deferred(
    table: PfnRange,
    usable: impl Iterator<Item = UsableRange>,
    mut each: impl FnMut(PfnRange, u8, Option<Init>),
) {
    let (mut at, mut started, mut last) = (table.start, 0u64, 0);
    let mut defer = |frames: PfnRange, zone, init| {
        if !frames.is_empty() {
            each(frames, zone, init);
        }
    };
    let size = Order::MAX.frames();
    for (frames, zone, init) in usable {
        // No frame of the table's first block before the table's start is usable.
        let (from, before) = if at == table.start { (at.0 / size * size, zone) } else { (at.0, last) };
        defer(whole_blocks(PfnRange::new(Pfn(from), frames.start)), before, None);
        let mut whole = whole_blocks(frames);
        if started >> zone & 1 == 0 && !whole.is_empty() {
            started |= 1 << zone;
            whole = PfnRange::new(whole.start.add(BLOCKS_AT_START * Order::MAX.frames()), whole.end);
        }
        defer(whole, zone, Some(init));
        (at, last) = (frames.end, zone);
    }
    let end = table.end.0.checked_next_multiple_of(size).map_or(table.end, Pfn);
    defer(whole_blocks(PfnRange::new(at, end)), last, None);
}

/// The parts of `within` that lie in none of the ranges, which ascend and do not overlap.
pub(in crate::frame) fn gaps(
    within: PfnRange,
    ranges: impl Iterator<Item = PfnRange>,
) -> impl Iterator<Item = PfnRange> {
    let end = PfnRange::new(within.end, within.end);
    let mut at = within.start;
    let relevant = ranges.filter(move |range| range.overlaps(within)).chain([end]);
    let gap = move |range: PfnRange| {
        let gap = PfnRange::new(at, range.start);
        at = at.max(range.end);
        gap
    };
    relevant.map(gap).filter(|gap| !gap.is_empty())
}

impl<C: Cpu> DeferredRange<C> {
    /// A range without claimed blocks.
    pub fn new(frames: PfnRange, zone: u8, usable: Option<Init>) -> Self {
        Self { frames, zone, usable, next: AtomicU64::new(section_of(frames.start)) }
    }

    /// The first section that may have an unclaimed block.
    pub fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Notes that no section before `section` has an unclaimed block.
    pub fn advance(&self, section: u64) {
        let _already_further = self.next.update(Relaxed, Relaxed, |at| (at < section).then_some(section));
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/deferred_range.rs"]
mod tests;
