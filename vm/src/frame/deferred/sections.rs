//! Which blocks have been claimed: one word for each section of 128 MiB.
//!
//! A terabyte has 32 KiB of such words. They come as memory was found, and are made zero a line at a time, by
//! whoever first claims in one of the line's sections; so start writes two bits for each line, 128 bytes with
//! a terabyte:
//!
//! ```text
//!   UNTOUCHED  --- who first needs the line --->  ZEROING  --- 16 words are zero --->  READY
//! ```
//!
//! Preemption is off meanwhile, so who finds a line in ZEROING waits for a few stores. Who only looks takes a
//! line that is not READY for what it stands for: nothing is claimed.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::wait_until;
use crate::units::{Order, Pfn, PfnRange};

/// Words that are made zero together: a line.
const LINE: usize = 16;
/// Lines whose state is in one word.
const LINES: usize = 16;
/// State of a line; see the module.
const UNTOUCHED: u32 = 0;
const ZEROING: u32 = 1;
const READY: u32 = 2;

/// Blocks of the largest order in a section.
pub const SECTION_BLOCKS: u64 = 32;
/// Frames in a section.
pub const SECTION_FRAMES: u64 = SECTION_BLOCKS * Order::MAX.frames();

/// The words of all sections that a frame table has a part in.
#[derive(Debug)]
pub(in crate::frame) struct Sections<'m, C: Cpu> {
    first: u64,
    /// Bit b: block b of the section is claimed. Zero: nothing is. Relaxed: it only says whose a block is;
    /// what the claimant writes is published by its zone's lock. Says nothing before its line is ready.
    words: &'m [AtomicU32<C>],
    /// Two bits for each line of words: its state. READY is released by who made the line zero, and acquired
    /// before a word is used.
    lines: &'m [AtomicU32<C>],
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

    /// Number of words for the states of so many words' lines.
    pub fn nr_line_words(nr_words: usize) -> usize {
        nr_words.div_ceil(LINE * LINES)
    }

    /// Nothing is claimed. There are as many words as [`nr_words`](Sections::nr_words) of `span` says,
    /// holding anything, and as many of `lines` as [`nr_line_words`](Sections::nr_line_words) says for them,
    /// all zero.
    pub fn new(span: PfnRange, words: &'m [AtomicU32<C>], lines: &'m [AtomicU32<C>]) -> Self {
        Self { first: section_of(span.start), words, lines }
    }

    /// Claims up to `most` blocks of `frames` in a section. `None` where all of them are claimed already.
    pub(super) fn claim(&self, section: u64, frames: PfnRange, most: u32) -> Option<Claim> {
        let (word, wanted) = (self.word_to_claim(section)?, blocks_in(section, frames));
        let claim = |word| next_claim(word, wanted, most).map(|blocks| word | blocks);
        let before = if mutant!("deferred.claim-not-atomic") {
            let before = word.load(Relaxed);
            word.store(claim(before)?, Relaxed);
            before
        } else {
            word.update(Relaxed, Relaxed, claim).ok()?
        };
        let blocks = next_claim(before, wanted, most)?;
        Some(Claim { section, blocks })
    }

    /// Blocks of `frames` in a section that nobody has claimed; stale at once.
    pub fn raw(&self, section: u64, frames: PfnRange) -> u32 {
        let claimed = match self.index(section) {
            Some(index) if self.state(index / LINE) == READY => self.words[index].load(Relaxed),
            Some(_) => 0,
            None => u32::MAX,
        };
        blocks_in(section, frames) & !claimed
    }

    fn index(&self, section: u64) -> Option<usize> {
        usize::try_from(section.checked_sub(self.first)?).ok().filter(|&index| index < self.words.len())
    }

    /// The word of a section, ready. Preemption is off.
    fn word_to_claim(&self, section: u64) -> Option<&AtomicU32<C>> {
        let index = self.index(section)?;
        if self.state(index / LINE) != READY {
            self.make_ready(index / LINE);
        }
        Some(&self.words[index])
    }

    fn state(&self, line: usize) -> u32 {
        // Acquire: pairs with the release in `make_ready`.
        self.lines[line / LINES].load(Acquire) >> shift(line) & 3
    }

    /// Makes a line of words zero, or waits until somebody else has.
    #[cold]
    fn make_ready(&self, line: usize) {
        let states = &self.lines[line / LINES];
        let begun =
            |word: u32| (word >> shift(line) & 3 == UNTOUCHED).then_some(word | ZEROING << shift(line));
        if states.update(Relaxed, Relaxed, begun).is_ok() {
            let end = self.words.len().min((line + 1) * LINE);
            self.words[line * LINE..end].iter().for_each(|word| word.store(0, Relaxed));
            // From ZEROING to READY. Release: pairs with `state`.
            states.fetch_add((READY - ZEROING) << shift(line), Release);
        }
        wait_until::<C>(|| self.state(line) == READY);
    }
}

/// Where in its word the state of a line is.
const fn shift(line: usize) -> u32 {
    2 * (line % LINES) as u32
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

#[cfg(all(test, not(loom)))]
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
    fn words_that_held_anything_say_nothing_is_claimed_until_something_is() {
        type Word = AtomicU32<crate::machine::testing::TestCpu>;
        let words: Vec<Word> = (0..600).map(|n| Word::new(n ^ 0xA5A5_A5A5)).collect();
        let lines: Vec<Word> = (0..Sections::<crate::machine::testing::TestCpu>::nr_line_words(600))
            .map(|_| Word::new(0))
            .collect();
        let span = range(0, 600 * SECTION_FRAMES);
        let sections = Sections::new(span, &words, &lines);
        assert!((0..600).all(|section| sections.raw(section, span) == u32::MAX));
        for section in [599, 0, 17, 16, 299] {
            assert_eq!(sections.claim(section, span, 2), Some(Claim { section, blocks: 0b11 }));
            assert_eq!(sections.raw(section, span), !0b11);
        }
        assert_eq!((0..600).filter(|&section| sections.raw(section, span) == u32::MAX).count(), 595);
        let made_zero = words.iter().filter(|word| word.load(Relaxed) & !0b11 == 0).count();
        assert_eq!(made_zero, 3 * LINE + 600 % LINE);
        assert_eq!((sections.raw(600, span), sections.claim(600, range(0, 1 << 40), 1)), (0, None));
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
