//! A set of addresses, as disjoint ranges, that is added to and forgotten range by range.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of addresses. Each operation takes logarithmic time, and that of the ranges it joins or forgets.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Ends by starts: disjoint, and no two of them touch.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((first, last)) = self.last_to(end).filter(|&(_, last)| start <= last) {
            self.ends.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.ends.insert(start, end);
    }

    /// Whether any of its addresses is in `other`.
    pub fn overlap(&self, other: &Range<u64>) -> bool {
        let last = other.end.checked_sub(1).and_then(|last| self.last_to(last));
        last.is_some_and(|(_, end)| other.start < end)
    }

    /// The first of its addresses in `other`.
    pub fn first_in(&self, other: &Range<u64>) -> Option<u64> {
        let before = self.last_to(other.start).filter(|&(_, end)| other.start < end);
        let inside = || self.ends.range(other.start..other.end.max(other.start)).next();
        let first = before.map(|_| other.start).or_else(|| inside().map(|(&start, _)| start));
        first.filter(|_| !other.is_empty())
    }

    /// Whether any of its addresses is in `other`, or right beside it.
    pub fn touch(&self, other: &Range<u64>) -> bool {
        self.last_to(other.end).is_some_and(|(_, end)| other.start <= end)
    }

    /// Whether it has the address.
    pub fn contains(&self, address: u64) -> bool {
        self.last_to(address).is_some_and(|(_, end)| address < end)
    }

    /// Forgets what lies in `gone`.
    pub fn remove(&mut self, gone: &Range<u64>) {
        if gone.is_empty() {
            return;
        }
        while let Some((start, end)) = self.last_to(gone.end - 1).filter(|&(_, end)| gone.start < end) {
            self.ends.remove(&start);
            if gone.end < end {
                self.ends.insert(gone.end, end);
            }
            if start < gone.start {
                self.ends.insert(start, gone.start);
            }
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.ends.clear();
    }

    /// The last range that begins at `address` or before it.
    fn last_to(&self, address: u64) -> Option<(u64, u64)> {
        self.ends.range(..=address).next_back().map(|(&start, &end)| (start, end))
    }
}

impl Extend<Range<u64>> for Ranges {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, ranges: I) {
        ranges.into_iter().for_each(|range| self.add(range));
    }
}

#[cfg(test)]
#[path = "tests/ranges.rs"]
mod tests;
