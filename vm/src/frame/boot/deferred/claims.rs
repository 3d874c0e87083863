//! Which blocks are claimed and which have their records written: two bits for each block, two words for each
//! section of 128 MiB.
//!
//! A terabyte has 64 KiB of such words. Start makes them zero, which takes about a microsecond.

use crate::frame::RecordInit;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::{Carve, carve_slice, fill};
use crate::units::{Order, Pfn, PfnRange};

/// Blocks of the largest order in a section: the bits of a word.
const SECTION_BLOCKS: u64 = u32::BITS as u64;
/// Frames in a section.
pub const SECTION_FRAMES: u64 = SECTION_BLOCKS * Order::MAX.frames();

/// The state of all sections that a frame table has a part in.
#[derive(Debug)]
pub(in crate::frame) struct ClaimBitmap<'m, C: Cpu> {
    first_section: u64,
    sections: &'m [SectionState<C>],
}

/// The state of the blocks of one section. Bit b is about block b.
#[derive(Debug)]
pub(in crate::frame) struct SectionState<C: Cpu> {
    /// A CPU has claimed the block. Relaxed: it only says which CPU initialises the block; what that CPU
    /// writes is published by `written` and by the region's lock.
    claimed: AtomicU32<C>,
    /// The records of the block are written, at start or by the CPU that claimed it. Set with release after
    /// the stores to the records; pairs with the acquire load of `is_written`.
    written: AtomicU32<C>,
}

/// Blocks of one section that one CPU has claimed: no other touches their records until they are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimedBlocks {
    pub section: u64,
    /// Bit b: block b of the section.
    pub blocks: u32,
}

impl<C: Cpu> SectionState<C> {
    /// No block is claimed, no record is written.
    pub const fn new() -> Self {
        Self { claimed: AtomicU32::new(0), written: AtomicU32::new(0) }
    }
}

impl<'m, C: Cpu> ClaimBitmap<'m, C> {
    /// Number of sections that the frames of `span` lie in.
    pub fn nr_sections(span: PfnRange) -> usize {
        (span.end.0.div_ceil(SECTION_FRAMES) - section_of(span.start)) as usize
    }

    /// The blocks of `span`, none of them claimed or written. There are
    /// [`nr_sections`](ClaimBitmap::nr_sections) of `span`, or none where no block is deferred: then all
    /// records are written.
    pub fn new(span: PfnRange, sections: &'m [SectionState<C>]) -> Self {
        Self { first_section: section_of(span.start), sections }
    }

    /// The blocks of `span`, none of them claimed or written, in boot memory; no words where no block is
    /// deferred.
    pub fn alloc(from: &mut impl Carve<'m>, span: PfnRange, init: RecordInit) -> Option<Self> {
        let nr_sections = match init {
            RecordInit::Eager => 0,
            RecordInit::Deferred => Self::nr_sections(span),
        };
        Some(Self::new(span, fill(carve_slice(from, nr_sections)?, |_| SectionState::new())))
    }

    /// Claims up to `most` blocks of `frames` in a section. `None` where all of them are claimed already.
    pub(super) fn claim(&self, section: u64, frames: PfnRange, most: u32) -> Option<ClaimedBlocks> {
        let (word, wanted) = (&self.section(section)?.claimed, blocks_in(section, frames));
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
        let claimed = self.section(section).map_or(u32::MAX, |state| state.claimed.load(Relaxed));
        blocks_in(section, frames) & !claimed
    }

    /// Notes that the records of claimed blocks are written, for lookups by any CPU.
    pub(super) fn note_written(&self, claimed: ClaimedBlocks) {
        if let Some(state) = self.section(claimed.section) {
            state.written.fetch_or(claimed.blocks, Release);
        }
    }

    /// As [`note_written`](Self::note_written), of the blocks that lie wholly in `frames`, at start.
    pub fn note_all_written(&self, frames: PfnRange) {
        for section in sections_of(frames) {
            self.note_written(ClaimedBlocks { section, blocks: blocks_in(section, frames) });
        }
    }

    /// Whether the record of a frame of the span is written.
    #[inline]
    pub fn is_written(&self, pfn: Pfn) -> bool {
        let block = pfn.0 / Order::MAX.frames() % SECTION_BLOCKS;
        // Acquire: see `written`.
        self.section(section_of(pfn)).is_none_or(|state| state.written.load(Acquire) >> block & 1 != 0)
    }

    #[inline]
    fn section(&self, section: u64) -> Option<&SectionState<C>> {
        self.sections.get(usize::try_from(section.checked_sub(self.first_section)?).ok()?)
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
