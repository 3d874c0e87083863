//! A set of pages, kept by table of leaves: one bit for each page of a table that has any.

use interleaf::units::Vpn;
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of a table of leaves.
const TABLE_PAGES: u64 = 512;
const WORDS: usize = TABLE_PAGES as usize / 64;

type Bits = [u64; WORDS];

/// A set of pages.
#[derive(Clone, Debug, Default)]
pub struct PageSet {
    tables: BTreeMap<u64, Bits>,
    pages: u64,
}

impl PageSet {
    /// How many pages it has.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// How many tables of leaves they lie in.
    pub fn tables(&self) -> u64 {
        self.tables.len() as u64
    }

    /// Whether it has the page.
    pub fn contains(&self, page: Vpn) -> bool {
        let (word, bit) = place(page.0);
        self.tables.get(&(page.0 / TABLE_PAGES)).is_some_and(|bits| bits[word] & bit != 0)
    }

    /// Adds a page.
    pub fn insert(&mut self, page: Vpn) {
        self.add(page.0..page.0 + 1);
    }

    /// Adds all pages of the huge page that begins at a page, if there is one.
    pub fn extend(&mut self, first: Option<Vpn>) {
        first.into_iter().for_each(|first| self.add(first.0..first.0 + TABLE_PAGES));
    }

    /// Takes a page out.
    pub fn remove(&mut self, page: Vpn) {
        self.remove_pages(page.0..page.0 + 1);
    }

    /// Takes the pages at the addresses out.
    pub fn remove_range(&mut self, addresses: &Range<u64>) {
        self.remove_pages(addresses.start / 4096..addresses.end / 4096);
    }

    /// Adds pages.
    pub fn add(&mut self, pages: Range<u64>) {
        for (table, mask) in masks(pages) {
            let bits = self.tables.entry(table).or_default();
            self.pages += set(bits, &mask);
        }
    }

    /// Takes pages out.
    pub fn remove_pages(&mut self, pages: Range<u64>) {
        let Some(last) = pages.end.checked_sub(1).filter(|_| !pages.is_empty()) else { return };
        let tables = pages.start / TABLE_PAGES..=last / TABLE_PAGES;
        let found: Vec<u64> = self.tables.range(tables).map(|(&table, _)| table).collect();
        for table in found {
            let mask = mask(table, &pages);
            let Some(bits) = self.tables.get_mut(&table) else { continue };
            for (word, gone) in bits.iter_mut().zip(mask) {
                self.pages -= u64::from((*word & gone).count_ones());
                *word &= !gone;
            }
            if *bits == [0; WORDS] {
                self.tables.remove(&table);
            }
        }
    }

    /// Adds the pages of `other` that `kept` has too; all of them, if there is no `kept`.
    pub fn absorb(&mut self, other: PageSet, kept: Option<&PageSet>) {
        for (table, mut mask) in other.tables {
            if let Some(kept) = kept {
                let Some(has) = kept.tables.get(&table) else { continue };
                mask.iter_mut().zip(has).for_each(|(word, has)| *word &= has);
            }
            if mask != [0; WORDS] {
                self.pages += set(self.tables.entry(table).or_default(), &mask);
            }
        }
    }

    /// Its pages in the range.
    pub fn in_range(&self, pages: Range<u64>) -> Vec<u64> {
        let tables =
            pages.start / TABLE_PAGES..pages.end.div_ceil(TABLE_PAGES).max(pages.start / TABLE_PAGES);
        let in_table = |(&table, bits): (&u64, &Bits)| {
            let (bits, first) = (*bits, table * TABLE_PAGES);
            (first..first + TABLE_PAGES).filter(move |&page| {
                let (word, bit) = place(page);
                bits[word] & bit != 0
            })
        };
        self.tables.range(tables).flat_map(in_table).filter(|page| pages.contains(page)).collect()
    }
}

/// The word of a table's bits that has the page's, and the bit.
fn place(page: u64) -> (usize, u64) {
    ((page % TABLE_PAGES / 64) as usize, 1 << (page % 64))
}

/// Sets bits; returns how many were not set before.
fn set(bits: &mut Bits, mask: &Bits) -> u64 {
    let mut new = 0;
    for (word, more) in bits.iter_mut().zip(mask) {
        new += u64::from((more & !*word).count_ones());
        *word |= more;
    }
    new
}

/// The tables of a range, each with the bits of its pages.
fn masks(pages: Range<u64>) -> impl Iterator<Item = (u64, Bits)> {
    let first = if pages.is_empty() { pages.end.div_ceil(TABLE_PAGES) } else { pages.start / TABLE_PAGES };
    let tables = first..pages.end.div_ceil(TABLE_PAGES);
    tables.map(move |table| (table, mask(table, &pages)))
}

fn mask(table: u64, pages: &Range<u64>) -> Bits {
    let first = table * TABLE_PAGES;
    let from = pages.start.clamp(first, first + TABLE_PAGES) - first;
    let to = pages.end.clamp(first, first + TABLE_PAGES) - first;
    let below = |bits: u64| if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    std::array::from_fn(|word| {
        let first = word as u64 * 64;
        below(to.saturating_sub(first)) & !below(from.saturating_sub(first))
    })
}

#[cfg(test)]
#[path = "tests/page_set.rs"]
mod tests;
