//! Which records lie on which node: a pure decision from the map.

use crate::frame::BootMap;
use crate::frame::record::RECORDS_IN_PAGE;
use crate::units::{NodeId, Pfn, PfnRange};

/// Consecutive pages of records that lie on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedExtent {
    /// The frames of the records: whole pages of records.
    pub frames: PfnRange,
    pub node: NodeId,
}

/// Whether records of frames in holes have memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoleRecords {
    /// All of them.
    Kept,
    /// But for those that fill a large page, of this number of records.
    LeftOut { in_large_page: u64 },
}

/// Calls `each` for every extent, by ascending address: at most as many as there are usable regions. A page
/// of records lies on the node of the first usable frame in it; pages without one belong to the extent before
/// them.
pub(super) fn plan_extents(map: &BootMap, holes: HoleRecords, each: &mut dyn FnMut(PlannedExtent)) {
    let down = |pfn: Pfn, unit: u64| Pfn(pfn.0 / unit * unit);
    let up = |pfn: Pfn, unit: u64| pfn.0.checked_next_multiple_of(unit).map_or(pfn, Pfn);
    let mut last: Option<PlannedExtent> = None;
    for (region, _) in map.usable().filter(|(region, _)| !region.frames().is_empty()) {
        let (frames, node) = (region.frames(), region.node);
        let (start, end) = (down(frames.start, RECORDS_IN_PAGE), up(frames.end, RECORDS_IN_PAGE));
        let Some(extent) = &mut last else {
            last = Some(PlannedExtent { frames: PfnRange::new(start, end), node });
            continue;
        };
        let start = start.max(extent.frames.end);
        if start >= end {
            continue;
        }
        // The hole before the region, in large pages.
        let hole = match holes {
            HoleRecords::Kept => PfnRange::default(),
            HoleRecords::LeftOut { in_large_page } => {
                PfnRange::new(up(extent.frames.end, in_large_page), down(start, in_large_page))
            }
        };
        let next = PlannedExtent { frames: PfnRange::new(start, end), node };
        if !hole.is_empty() {
            extent.frames.end = hole.start;
            let frames = PfnRange::new(hole.end, end);
            each(core::mem::replace(extent, PlannedExtent { frames, ..next }));
        } else if extent.node == node {
            extent.frames.end = end;
        } else {
            extent.frames.end = start;
            each(core::mem::replace(extent, next));
        }
    }
    last.into_iter().for_each(each);
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/record_plan.rs"]
mod tests;
