//! Ranges of addresses that do not overlap, each with a value: one is found, and forgotten, page by page.

use std::collections::BTreeMap;
use std::ops::Range;

/// Values of ranges. A value holds for each address of its range, so ranges are cut freely.
#[derive(Clone, Debug)]
pub struct Spans<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Spans<T> {
    fn default() -> Self {
        Spans(BTreeMap::new())
    }
}

impl<T: Clone> Spans<T> {
    /// Gives a range a value, and no other.
    pub fn put(&mut self, range: Range<u64>, value: T) {
        self.take(&range);
        if !range.is_empty() {
            self.0.insert(range.start, (range.end, value));
        }
    }

    /// Forgets a range, and returns what its parts had, upwards.
    pub fn take(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, T)> {
        self.cut(range.start);
        self.cut(range.end);
        let starts: Vec<u64> = self.within(range).map(|(start, _)| *start).collect();
        let mut taken = Vec::with_capacity(starts.len());
        for start in starts {
            taken.extend(self.0.remove(&start).map(|(end, value)| (start..end, value)));
        }
        taken
    }

    /// The parts of a range that have a value, upwards, each cut to the range.
    pub fn parts<'a>(&'a self, range: &'a Range<u64>) -> impl Iterator<Item = (Range<u64>, &'a T)> {
        let before = self.before(range.start).filter(|(_, (end, _))| *end > range.start && !range.is_empty());
        before
            .into_iter()
            .chain(self.within(range))
            .map(|(start, (end, value))| (*start.max(&range.start)..*end.min(&range.end), value))
    }

    /// The range that holds an address, whole, and its value.
    pub fn at(&self, address: u64) -> Option<(Range<u64>, &T)> {
        let (start, (end, value)) = self.0.range(..=address).next_back()?;
        (address < *end).then_some((*start..*end, value))
    }

    /// Changes the values of the parts of a range.
    pub fn change(&mut self, range: &Range<u64>, change: impl Fn(&mut T)) {
        for (part, mut value) in self.take(range) {
            change(&mut value);
            self.0.insert(part.start, (part.end, value));
        }
    }

    fn before(&self, address: u64) -> Option<(&u64, &(u64, T))> {
        self.0.range(..address).next_back()
    }

    fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (&u64, &(u64, T))> {
        // A range that ends before it starts holds nothing.
        self.0.range(range.start..range.end.max(range.start))
    }

    fn cut(&mut self, at: u64) {
        let Some((&start, (end, value))) = self.before(at) else { return };
        if *end > at {
            let rest = (*end, value.clone());
            self.0.insert(at, rest);
            self.0.entry(start).and_modify(|(end, _)| *end = at);
        }
    }
}

#[cfg(test)]
#[path = "tests/spans.rs"]
mod tests;
