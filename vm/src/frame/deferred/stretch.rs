//! What may wait: a pure decision from the map.

use crate::frame::Init;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{Order, Pfn, PfnRange};

/// Blocks of a zone that are there when the first allocation comes.
pub(super) const BLOCKS_AT_START: u64 = 1;

/// Whole blocks side by side, all alike, that nobody has looked at yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::frame) struct Plan {
    pub frames: PfnRange,
    /// Index of the zone whose they are, or whose helpers write them.
    pub zone: u8,
    /// What their memory starts as; `None` where it is not the library's and is never given.
    pub gives: Option<Init>,
}

/// A [`Plan`] with what growth knows about it.
#[derive(Debug)]
pub(in crate::frame) struct Stretch<C: Cpu> {
    pub plan: Plan,
    /// No section before this one has a raw block of the stretch. Relaxed: a hint, which only grows.
    pub next: AtomicU64<C>,
}

/// A span of usable frames of a zone.
pub(super) type Usable = (PfnRange, u8, Init);

/// The most stretches that `spans` spans make.
pub(in crate::frame) const fn most_stretches(spans: usize) -> usize {
    2 * spans + 1
}

/// The blocks that lie wholly in a range.
pub(in crate::frame) fn whole_blocks(frames: PfnRange) -> PfnRange {
    let size = Order::MAX.frames();
    let down = |pfn: Pfn| Pfn(pfn.0 / size * size);
    let start = Pfn(frames.start.0.next_multiple_of(size));
    let start = if mutant!("deferred.edge-block-deferred") { down(frames.start) } else { start };
    PfnRange::new(start, down(frames.end))
}

/// Tells `each` what of `table` may wait, by ascending address: of each usable span the whole blocks, less
/// the first of each zone; of what is not usable the blocks without any usable frame, the table's first and
/// last ones among them, which it may hold in part.
pub(in crate::frame) fn plan(
    table: PfnRange,
    spans: impl Iterator<Item = Usable>,
    mut each: impl FnMut(Plan),
) {
    let (mut at, mut started, mut last) = (table.start, 0u64, 0);
    let mut tell = |frames: PfnRange, zone, gives| {
        if !frames.is_empty() {
            each(Plan { frames, zone, gives });
        }
    };
    let size = Order::MAX.frames();
    for (frames, zone, init) in spans {
        // Nobody has a frame of the table's first block before it starts.
        let from = if at == table.start { at.0 / size * size } else { at.0 };
        tell(whole_blocks(PfnRange::new(Pfn(from), frames.start)), zone, None);
        let mut whole = whole_blocks(frames);
        if started >> zone & 1 == 0 && !whole.is_empty() {
            started |= 1 << zone;
            whole = PfnRange::new(whole.start.add(BLOCKS_AT_START * Order::MAX.frames()), whole.end);
        }
        tell(whole, zone, Some(init));
        (at, last) = (frames.end, zone);
    }
    let end = table.end.0.checked_next_multiple_of(size).map_or(table.end, Pfn);
    tell(whole_blocks(PfnRange::new(at, end)), last, None);
}

impl<C: Cpu> Stretch<C> {
    /// Nothing of it is claimed.
    pub fn new(plan: Plan) -> Self {
        Self { plan, next: AtomicU64::new(super::sections::section_of(plan.frames.start)) }
    }

    /// The first section that may have a raw block.
    pub fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Sections before `section` have none.
    pub fn passed(&self, section: u64) {
        let _already_further = self.next.update(Relaxed, Relaxed, |at| (at < section).then_some(section));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn range(from: u64, to: u64) -> PfnRange {
        PfnRange::new(Pfn(from), Pfn(to))
    }

    fn plans(table: PfnRange, spans: &[(u64, u64, u8)]) -> Vec<(u64, u64, u8, bool)> {
        let mut all = Vec::new();
        let spans = spans.iter().map(|&(from, to, zone)| (range(from, to), zone, Init::Dirty));
        plan(table, spans, |p| all.push((p.frames.start.0, p.frames.end.0, p.zone, p.gives.is_some())));
        all
    }

    #[test]
    fn edges_and_the_first_block_of_a_zone_do_not_wait() {
        let table = range(100, 9000);
        assert_eq!(plans(table, &[(100, 9000, 0)]), [(2048, 8192, 0, true)]);
        assert_eq!(plans(table, &[(100, 1500, 0)]), [(2048, 9216, 0, false)]);
        assert_eq!(plans(table, &[(1500, 8200, 0)]), [(0, 1024, 0, false), (3072, 8192, 0, true)]);
        assert_eq!(plans(range(0, 1024), &[(0, 1024, 0)]), []);
    }

    #[test]
    fn holes_inside_of_a_block_keep_it_from_waiting() {
        let spans = [(0, 5000, 0), (5001, 5002, 0), (5003, 9000, 1), (20_000, 24_576, 1)];
        let expected = [
            (1024, 4096, 0, true),
            (6144, 8192, 1, true),
            (9216, 19_456, 1, false),
            (20_480, 24_576, 1, true),
            (24_576, 31_744, 1, false),
        ];
        assert_eq!(plans(range(0, 30_800), &spans), expected);
    }

    #[test]
    fn a_border_between_nodes_is_an_edge() {
        let spans = [(0, 4000, 0), (4000, 8192, 1)];
        assert_eq!(plans(range(0, 8192), &spans), [(1024, 3072, 0, true), (5120, 8192, 1, true)]);
    }

    #[test]
    fn the_hint_only_grows() {
        let plan = Plan { frames: range(0, 1 << 20), zone: 0, gives: None };
        let stretch = Stretch::<crate::machine::testing::TestCpu>::new(plan);
        stretch.passed(7);
        stretch.passed(3);
        assert_eq!(stretch.next(), 7);
    }
}
