//! Ranges of addresses that are noted, and forgotten page by page.

use std::ops::Range;

/// Some ranges, which may overlap each other.
#[derive(Clone, Debug, Default)]
pub struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Notes a range.
    pub fn add(&mut self, range: Range<u64>) {
        self.0.push(range);
    }

    /// Whether any has an address of `other`.
    pub fn overlap(&self, other: &Range<u64>) -> bool {
        self.0.iter().any(|range| range.start < other.end && other.start < range.end)
    }

    /// The first address of `other` that any has.
    pub fn first_in(&self, other: &Range<u64>) -> Option<u64> {
        let overlaps = |range: &&Range<u64>| range.start < other.end && other.start < range.end;
        self.0.iter().filter(overlaps).map(|range| range.start.max(other.start)).min()
    }

    /// Whether any has an address of `other`, or lies right beside it.
    pub fn touch(&self, other: &Range<u64>) -> bool {
        self.0.iter().any(|range| range.start <= other.end && other.start <= range.end)
    }

    /// Forgets what lies in `gone`.
    pub fn remove(&mut self, gone: &Range<u64>) {
        if gone.is_empty() || !self.overlap(gone) {
            return;
        }
        let rest = |range: &Range<u64>| {
            [range.start..range.end.min(gone.start), range.start.max(gone.end)..range.end]
        };
        self.0 = self.0.iter().flat_map(rest).filter(|range| range.start < range.end).collect();
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
