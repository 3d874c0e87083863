//! Which deferred blocks are claimed: one bit for each block, one word for each section of 128 MiB.
//!
//! A terabyte has 32 KiB of such words. Start makes them zero, which takes less than a microsecond; firmware
//! that hands over zeroed memory saves even that.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::units::{Order, Pfn, PfnRange};

/// Blocks of the largest order in a section: the bits of a word.
const SECTION_BLOCKS: u64 = u32::BITS as u64;
/// Frames in a section.
pub const SECTION_FRAMES: u64 = SECTION_BLOCKS * Order::MAX.frames();

/// The words of all sections that a frame table has a part in.
#[derive(Debug)]
pub(in crate::frame) struct ClaimBitmap<'m, C: Cpu> {
    first_section: u64,
    /// Bit b: block b of the section is claimed. Relaxed: it only says which CPU initialises the block; what
    /// that CPU writes is published by the zone's lock.
    words: &'m [AtomicU32<C>],
}

/// Blocks of one section that one CPU has claimed: no other touches their records until they are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimedBlocks {
    pub section: u64,
    /// Bit b: block b of the section.
    pub blocks: u32,
}

impl<'m, C: Cpu> ClaimBitmap<'m, C> {
    /// How many words the frames of `span` need.
    pub fn nr_words(span: PfnRange) -> usize {
        (span.end.0.div_ceil(SECTION_FRAMES) - section_of(span.start)) as usize
    }

    /// A bitmap of zero words: no block is claimed. Their number is [`nr_words`](ClaimBitmap::nr_words) of
    /// `span`, or 0 where no block is deferred.
    pub fn new(span: PfnRange, words: &'m [AtomicU32<C>]) -> Self {
        Self { first_section: section_of(span.start), words }
    }

    /// Claims up to `most` blocks of `frames` in a section. `None` where all of them are claimed already.
    pub(super) fn claim(&self, section: u64, frames: PfnRange, most: u32) -> Option<ClaimedBlocks> {
        let (word, wanted) = (self.word(section)?, blocks_in(section, frames));
        let claim = |word| next_claim(word, wanted, most).map(|blocks| word | blocks);
        let before = if mutant!("deferred.claim-not-atomic") {
            let before = word.load(Relaxed);
            word.store(claim(before)?, Relaxed);
            before
        } else {
            word.update(Relaxed, Relaxed, claim).ok()?
        };
        let blocks = next_claim(before, wanted, most)?;
        Some(ClaimedBlocks { section, blocks })
    }

    /// Blocks of `frames` in a section that are not claimed; stale at once.
    pub fn unclaimed(&self, section: u64, frames: PfnRange) -> u32 {
        let claimed = self.word(section).map_or(u32::MAX, |word| word.load(Relaxed));
        blocks_in(section, frames) & !claimed
    }

    fn word(&self, section: u64) -> Option<&AtomicU32<C>> {
        self.words.get(usize::try_from(section.checked_sub(self.first_section)?).ok()?)
    }
}

impl ClaimedBlocks {
    /// The claimed blocks, adjacent ones as one range.
    pub fn ranges(self) -> impl Iterator<Item = PfnRange> {
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
    let mut unclaimed = wanted & !word;
    let mut left = most;
    let mut taken = 0;
    while unclaimed != 0 && left > 0 {
        let lowest = unclaimed & unclaimed.wrapping_neg();
        taken |= lowest;
        unclaimed &= !lowest;
        left -= 1;
    }
    if taken == 0 { None } else { Some(taken) }
}

/// `len` bits from bit `start`.
const fn mask(start: u32, len: u32) -> u32 {
    (((1u64 << len) - 1) << start) as u32
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/claims.rs"]
mod tests;
