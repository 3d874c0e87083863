//! Which memory is mapped, in pieces: never fewer than there are mappings, as no two are joined.

use std::collections::BTreeMap;
use std::ops::Range;

/// Mapped pages.
#[derive(Clone, Debug, Default)]
pub struct Pieces(BTreeMap<u64, Piece>);

#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    is_shared: bool,
}

impl Pieces {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Maps pages, in the place of what was there.
    pub fn map(&mut self, pages: Range<u64>, is_shared: bool) {
        self.unmap(pages.clone());
        if !pages.is_empty() {
            self.0.insert(pages.start, Piece { end: pages.end, is_shared });
        }
    }

    /// Unmaps pages.
    pub fn unmap(&mut self, pages: Range<u64>) {
        self.split(pages.clone());
        let gone: Vec<u64> =
            self.0.range(pages.start..pages.end.max(pages.start)).map(|(&at, _)| at).collect();
        for at in gone {
            self.0.remove(&at);
        }
    }

    /// Makes pieces begin and end where the range does.
    pub fn split(&mut self, pages: Range<u64>) {
        for at in [pages.start, pages.end] {
            if let Some((_, piece)) = self.0.range_mut(..at).next_back()
                && at < piece.end
            {
                let behind = *piece;
                piece.end = at;
                self.0.insert(at, behind);
            }
        }
    }

    /// Whether the page is in shared memory.
    pub fn is_shared(&self, page: u64) -> bool {
        let found = self.0.range(..=page).next_back();
        found.is_some_and(|(_, piece)| page < piece.end && piece.is_shared)
    }

    /// What is mapped of the range.
    pub fn in_range(&self, pages: Range<u64>) -> Vec<Range<u64>> {
        let first = self.0.range(..=pages.start).next_back().map_or(pages.start, |(&at, _)| at);
        let found = self.0.range(first..pages.end.max(first));
        let part = |(&at, piece): (&u64, &Piece)| at.max(pages.start)..piece.end.min(pages.end);
        found.map(part).filter(|part| !part.is_empty()).collect()
    }
}

#[cfg(test)]
#[path = "tests/pieces.rs"]
mod tests;
