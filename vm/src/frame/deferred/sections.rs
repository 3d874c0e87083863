//! Which blocks have been claimed: one word for each section of 128 MiB.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::units::{Order, Pfn, PfnRange};

/// Blocks of the largest order in a section.
pub const SECTION_BLOCKS: u64 = 32;
/// Frames in a section.
pub const SECTION_FRAMES: u64 = SECTION_BLOCKS * Order::MAX.frames();

/// The words of all sections that a frame table has a part in.
#[derive(Debug)]
pub(in crate::frame) struct Sections<'m, C: Cpu> {
    first: u64,
    /// Bit b: block b of the section is claimed. Zero: nothing is. Relaxed: it only says whose a block is; what the claimant
    /// writes is published by its zone's lock.
    words: &'m [AtomicU32<C>],
}

/// Blocks of one section that somebody has claimed and nobody else will touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub section: u64,
    /// Bit b: block b of the section.
    pub blocks: u32,
}

impl<'m, C: Cpu> Sections<'m, C> {
    /// How many words the frames of `span` need.
    pub fn nr_words(span: PfnRange) -> usize {
        (span.end.0.div_ceil(SECTION_FRAMES) - section_of(span.start)) as usize
    }

    /// Nothing is claimed. There are as many words as [`nr_words`](Sections::nr_words) of `span` says.
    pub fn new(span: PfnRange, words: &'m [AtomicU32<C>]) -> Self {
        Self { first: section_of(span.start), words }
    }

    /// Claims up to `most` blocks of `frames` in a section. `None` where all of them are claimed already.
    pub(super) fn claim(&self, section: u64, frames: PfnRange, most: u32) -> Option<Claim> {
        let (word, wanted) = (self.word(section)?, blocks_in(section, frames));
        let claim = |word| next_claim(word, wanted, most).map(|blocks| word | blocks);
        let before = word.update(Relaxed, Relaxed, claim).ok()?;
        let blocks = next_claim(before, wanted, most)?;
        Some(Claim { section, blocks })
    }

    /// Blocks of `frames` in a section that nobody has claimed; stale at once.
    pub fn raw(&self, section: u64, frames: PfnRange) -> u32 {
        let claimed = self.word(section).map_or(u32::MAX, |word| word.load(Relaxed));
        blocks_in(section, frames) & !claimed
    }

    fn word(&self, section: u64) -> Option<&AtomicU32<C>> {
        self.words.get(usize::try_from(section.checked_sub(self.first)?).ok()?)
    }
}

impl Claim {
    /// The claimed blocks, those side by side in one piece.
    pub fn pieces(self) -> impl Iterator<Item = PfnRange> {
        let first = Pfn(self.section * SECTION_FRAMES);
        let mut rest = self.blocks;
        core::iter::from_fn(move || {
            let start = (rest != 0).then(|| rest.trailing_zeros())?;
            let len = (rest >> start).trailing_ones();
            rest &= !mask(start, len);
            let block = |number: u32| first.add(u64::from(number) * Order::MAX.frames());
            Some(PfnRange::new(block(start), block(start + len)))
        })
    }
}

/// The section that a frame lies in.
pub(super) const fn section_of(pfn: Pfn) -> u64 {
    pfn.0 / SECTION_FRAMES
}

/// The sections that a range has frames in.
pub(super) fn sections_of(frames: PfnRange) -> core::ops::Range<u64> {
    section_of(frames.start)..frames.end.0.div_ceil(SECTION_FRAMES)
}

/// The blocks of `section` that lie wholly in `frames`.
pub(super) fn blocks_in(section: u64, frames: PfnRange) -> u32 {
    let first = Pfn(section * SECTION_FRAMES);
    let part = PfnRange::new(first, first.add(SECTION_FRAMES)).intersect(frames);
    let start = (part.start.0 - first.0).div_ceil(Order::MAX.frames());
    let end = (part.end.0.saturating_sub(first.0)) / Order::MAX.frames();
    mask(start as u32, end.saturating_sub(start) as u32)
}

/// The lowest `most` of the blocks that are wanted and not claimed; `None` where there is none.
const fn next_claim(word: u32, wanted: u32, most: u32) -> Option<u32> {
    let mut free = wanted & !word;
    let mut left = most;
    let mut taken = 0;
    while free != 0 && left > 0 {
        let lowest = free & free.wrapping_neg();
        taken |= lowest;
        free &= !lowest;
        left -= 1;
    }
    if taken == 0 { None } else { Some(taken) }
}

/// `len` bits from bit `start`.
const fn mask(start: u32, len: u32) -> u32 {
    (((1u64 << len) - 1) << start) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn range(from: u64, to: u64) -> PfnRange {
        PfnRange::new(Pfn(from), Pfn(to))
    }

    #[test]
    fn a_claim_takes_the_lowest_blocks_that_are_wanted_and_free() {
        assert_eq!(next_claim(0, u32::MAX, 3), Some(0b111));
        assert_eq!(next_claim(0b101, 0b1111, 9), Some(0b1010));
        assert_eq!(next_claim(0b1111, 0b1111, 9), None);
        assert_eq!(next_claim(0, 0, 1), None);
        assert_eq!(next_claim(0, u32::MAX, 0), None);
        assert_eq!(next_claim(0, u32::MAX, 32), Some(u32::MAX));
    }

    #[test]
    fn only_whole_blocks_of_the_section_are_wanted() {
        assert_eq!(blocks_in(0, range(0, 1 << 40)), u32::MAX);
        assert_eq!(blocks_in(1, range(0, SECTION_FRAMES)), 0);
        assert_eq!(blocks_in(0, range(1, 3 * 1024 - 1)), 0b10);
        assert_eq!(blocks_in(2, range(0, 2 * SECTION_FRAMES + 1024)), 1);
        assert_eq!(blocks_in(0, range(1, 2)), 0);
        assert_eq!(blocks_in(5, range(0, 9)), 0);
    }

    #[test]
    fn the_pieces_of_a_claim_are_its_blocks() {
        let claim = Claim { section: 1, blocks: 0b1011 | 1 << 31 };
        let pieces: Vec<_> = claim.pieces().map(|p| (p.start.0 - SECTION_FRAMES, p.len())).collect();
        assert_eq!(pieces, [(0, 2048), (3 * 1024, 1024), (31 * 1024, 1024)]);
        let all = Claim { section: 0, blocks: u32::MAX };
        assert_eq!(all.pieces().collect::<Vec<_>>(), [range(0, SECTION_FRAMES)]);
    }
}
