//! Sets of pages, kept by regions of 2 MiB.

use interleaf::units::{PageSize, Vpn};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of a region.
const PAGES: u64 = PageSize::Huge.pages();
/// Words for one bit each.
const WORDS: usize = PAGES as usize / 64;

/// Some pages.
#[derive(Clone, Debug, Default)]
pub struct PageSet(BTreeMap<u64, [u64; WORDS]>);

impl PageSet {
    /// Adds a page.
    pub fn insert(&mut self, page: Vpn) {
        self.0.entry(page.0 / PAGES).or_default()[word_of(page)] |= bit_of(page);
    }

    /// Adds all pages of the region that begins at a page, if there is one.
    pub fn extend(&mut self, first: Option<Vpn>) {
        self.0.extend(first.map(|first| (first.0 / PAGES, [u64::MAX; WORDS])));
    }

    /// Whether it has the page.
    pub fn contains(&self, page: Vpn) -> bool {
        self.0.get(&(page.0 / PAGES)).is_some_and(|words| words[word_of(page)] & bit_of(page) != 0)
    }

    /// Takes a page out.
    pub fn remove(&mut self, page: Vpn) {
        if let Some(words) = self.0.get_mut(&(page.0 / PAGES)) {
            words[word_of(page)] &= !bit_of(page);
        }
    }

    /// Takes the pages at the addresses out. A region goes whole, or page by page.
    pub fn remove_range(&mut self, addresses: &Range<u64>) {
        let (from, to) = (addresses.start / 4096, addresses.end / 4096);
        if from >= to {
            return;
        }
        let regions: Vec<u64> = self.0.range(from / PAGES..=(to - 1) / PAGES).map(|(at, _)| *at).collect();
        for region in regions {
            let (first, end) = (region * PAGES, (region + 1) * PAGES);
            if from <= first && end <= to {
                self.0.remove(&region);
            } else {
                (from.max(first)..to.min(end)).for_each(|page| self.remove(Vpn(page)));
            }
        }
    }
}

fn word_of(page: Vpn) -> usize {
    (page.0 % PAGES) as usize / 64
}

fn bit_of(page: Vpn) -> u64 {
    1 << (page.0 % 64)
}

#[cfg(test)]
#[path = "tests/page_set.rs"]
mod tests;
