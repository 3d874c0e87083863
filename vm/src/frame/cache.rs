//! A CPU's own stock of single frames.
//!
//! ```text
//!   alloc_frame ──► pop                                    free_frame ──► push
//!                    │ empty                                               │ full
//!                    ▼                                                     ▼
//!       one lot from the zone, in order                      the oldest lot back to the zone
//! ```
//!
//! A stack: the frame freed last is warm and goes out first. A lot comes from one block of the zone that was
//! split once, so it starts even and its records fill whole lines. What goes back is the coldest part.
//!
//! A lot is [`BATCH`] frames at first and twice as many each time the stack runs empty again before it was
//! full, or full again before it was empty, up to half the stack: who takes or gives thousands goes to the
//! zone seldom, and who takes a few keeps few.
//!
//! The cache's owner works on it by plain loads and stores. Another CPU that finds the zones empty claims it
//! (`biased`), so frames here are never out of reach; no allocation fails because other CPUs hold free
//! frames. A second, shorter stack of 2 MiB blocks would lie beside the first.

use super::Init;
use crate::machine::Cpu;
use crate::sync::Plain;
use crate::sync::asymmetric::AsymmetricCell;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::units::Pfn;
use core::fmt;

/// Frames that move between a zone and a cache at once, at first.
pub const BATCH: usize = 32;
/// The most frames that a cache holds.
pub const CAPACITY: usize = 256;
/// The most frames that move at once.
pub(super) const MOST: usize = CAPACITY / 2;

/// A frame and what its bytes are known to be.
pub(super) type Stocked = (Pfn, Init);

/// A CPU's cache and counts. The counts are written by their CPU alone, in plain stores; others read them,
/// stale. What every allocation touches comes first, on one line with the bottom of the stack.
///
/// Every frame that came in is cached, handed out, or went back: `came_in + pgfree = pgalloc + cached +
/// went_out + drained`. `pgfree` is not stored but follows.
#[repr(C)]
pub(super) struct CpuCache<C: Cpu> {
    /// Frames in the stack, and how many were handed out from it.
    pub tally: Tally<C>,
    /// Frames that came from a zone.
    pub came_in: AtomicU64<C>,
    /// Frames that went back to a zone.
    pub went_out: AtomicU64<C>,
    /// Frames handed out on this CPU that never were in the stack.
    pub past_stack: AtomicU64<C>,
    /// Frames that claimants took out. Written under the drain lock.
    pub drained: AtomicU64<C>,
    /// The last lot: how many frames, and which way, as `way`. Read and written by this CPU alone.
    lot: AtomicU32<C>,
    pub frames: AsymmetricCell<Frames<C>, C>,
}

/// A CPU's free frames.
pub(super) type Frames<C> = Stack<C, CAPACITY>;

/// Which way a lot goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the zone.
    In = 0,
    /// To the zone.
    Out = 1,
}

/// Words, coldest first. How many is kept beside it, where others may read it.
pub(super) struct Stack<C: Cpu, const N: usize> {
    slots: [Plain<u64, C>; N],
}

/// How many words a stack holds (bits 0..10), and how many were popped since the start (bits 10..64: at a
/// hundred million a second they wrap after five years). One word, so that a pop is one store. Written by who
/// may use the stack; others read it, stale.
pub(super) struct Tally<C: Cpu>(AtomicU64<C>);

const POPPED_SHIFT: u32 = 10;
const LEN: u64 = (1 << POPPED_SHIFT) - 1;
const POPPED: u64 = 1 << POPPED_SHIFT;

/// Set in the word of a frame that is known to be zero.
const ZEROED: u64 = 1 << 63;

/// A frame as a word of the stack.
#[inline(always)]
pub(super) const fn pack((pfn, init): Stocked) -> u64 {
    match init {
        Init::Dirty => pfn.0,
        Init::Zeroed => pfn.0 | ZEROED,
    }
}

/// The frame of a word.
#[inline(always)]
pub(super) const fn unpack(word: u64) -> Stocked {
    (Pfn(word & !ZEROED), if word & ZEROED != 0 { Init::Zeroed } else { Init::Dirty })
}

impl<C: Cpu> CpuCache<C> {
    pub fn new() -> Self {
        Self {
            tally: Tally::new(),
            came_in: AtomicU64::new(0),
            went_out: AtomicU64::new(0),
            past_stack: AtomicU64::new(0),
            drained: AtomicU64::new(0),
            lot: AtomicU32::new(0),
            frames: AsymmetricCell::new(Stack::new()),
        }
    }

    /// Frames handed out on this CPU.
    pub fn pgalloc(&self) -> u64 {
        self.tally.popped() + self.past_stack.load(Relaxed)
    }

    /// Frames freed on this CPU; below zero, wrapped, where they were allocated elsewhere.
    pub fn pgfree(&self) -> u64 {
        let out = self.pgalloc()
            + self.tally.len() as u64
            + self.went_out.load(Relaxed)
            + self.drained.load(Relaxed);
        out.wrapping_sub(self.came_in.load(Relaxed))
    }

    /// The part that its owner uses and a claimant may claim.
    pub fn part(&self) -> &AsymmetricCell<Frames<C>, C> {
        &self.frames
    }

    /// How many frames the next lot has, which goes `way`. Called by the CPU itself.
    pub fn next_lot(&self, way: Way) -> usize {
        let next = next_lot(self.lot.load(Relaxed), way);
        self.lot.store(next, Relaxed);
        (next >> 1) as usize
    }
}

/// The lot after `last`: twice as many the same way, a small one after a turn. Bit 0 is the way, the rest how
/// many.
const fn next_lot(last: u32, way: Way) -> u32 {
    let (many, before) = ((last >> 1) as usize, last & 1);
    let doubled = if before == way as u32 { 2 * many } else { BATCH };
    let next = if doubled < BATCH {
        BATCH
    } else if doubled > MOST {
        MOST
    } else {
        doubled
    };
    (next as u32) << 1 | way as u32
}

impl<C: Cpu> Tally<C> {
    /// Of an empty stack.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Words in the stack.
    #[inline(always)]
    pub fn len(&self) -> usize {
        (self.0.load(Relaxed) & LEN) as usize
    }

    /// Words popped since the start.
    pub fn popped(&self) -> u64 {
        self.0.load(Relaxed) >> POPPED_SHIFT
    }

    #[inline(always)]
    fn set_len(&self, len: usize) {
        self.0.store(self.0.load(Relaxed) & !LEN | len as u64, Relaxed);
    }
}

impl<C: Cpu, const N: usize> Stack<C, N> {
    /// An empty stack.
    pub const fn new() -> Self {
        const { assert!(N as u64 <= LEN) };
        Self { slots: [const { Plain::new(0) }; N] }
    }

    /// Takes the warmest word.
    #[inline(always)]
    pub fn pop(&mut self, tally: &Tally<C>) -> Option<u64> {
        let old = tally.0.load(Relaxed);
        let left = (old & LEN).wrapping_sub(1);
        let word = self.slots.get(left as usize)?.get();
        tally.0.store(old.wrapping_add(POPPED - 1), Relaxed);
        Some(word)
    }

    /// Stocks a word; `false` where there is no room.
    #[inline(always)]
    pub fn push(&mut self, tally: &Tally<C>, word: u64) -> bool {
        let old = tally.0.load(Relaxed);
        let Some(slot) = self.slots.get_mut((old & LEN) as usize) else { return false };
        slot.set(word);
        tally.0.store(old + 1, Relaxed);
        true
    }

    /// Stocks words, the last one warmest, as many as there is room for. Returns how many.
    pub fn push_all(&mut self, tally: &Tally<C>, words: &[u64]) -> usize {
        let len = tally.len();
        let room = &mut self.slots[len..];
        let pushed = words.len().min(room.len());
        for (slot, &word) in room.iter_mut().zip(words) {
            slot.set(word);
        }
        tally.set_len(len + pushed);
        pushed
    }

    /// Stocks words so that they are popped in order, the last ones where there is no room for all. Returns
    /// how many of the first were left.
    pub fn fill(&mut self, tally: &Tally<C>, words: &[u64]) -> usize {
        let len = tally.len();
        let room = &mut self.slots[len..];
        let left = words.len().saturating_sub(room.len());
        for (slot, &word) in room.iter_mut().zip(words[left..].iter().rev()) {
            slot.set(word);
        }
        tally.set_len(len + words.len() - left);
        left
    }

    /// Takes the coldest words, as many as there are or `words` has room for. Returns how many.
    pub fn shift(&mut self, tally: &Tally<C>, words: &mut [u64]) -> usize {
        let len = tally.len();
        let taken = len.min(words.len());
        for (to, from) in words.iter_mut().zip(&self.slots[..taken]) {
            *to = from.get();
        }
        for at in taken..len {
            let word = self.slots[at].get();
            self.slots[at - taken].set(word);
        }
        tally.set_len(len - taken);
        taken
    }

    /// The words, coldest first.
    pub fn words(&self, tally: &Tally<C>) -> impl Iterator<Item = u64> {
        self.slots[..tally.len()].iter().map(Plain::get)
    }
}

impl<C: Cpu> fmt::Debug for CpuCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames cached", self.tally.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestCpu;

    const ALL: u64 = 64;
    type Small = Stack<TestCpu, { ALL as usize }>;

    #[test]
    fn the_warmest_goes_out_first_and_the_coldest_goes_back() {
        let (mut stack, tally) = (Small::new(), Tally::new());
        assert!((0..ALL).all(|word| stack.push(&tally, word)));
        assert!(!stack.push(&tally, 99));
        assert_eq!(stack.pop(&tally), Some(ALL - 1));
        let mut batch = [0; 32];
        assert_eq!(stack.shift(&tally, &mut batch), 32);
        assert_eq!((batch[0], batch[31]), (0, 31));
        assert_eq!(stack.words(&tally).next(), Some(32));
        assert_eq!(stack.shift(&tally, &mut batch), 31);
        assert_eq!((stack.pop(&tally), tally.len(), tally.popped()), (None, 0, 1));
    }

    #[test]
    fn what_fills_a_stack_goes_out_in_order_and_what_does_not_fit_is_left() {
        let (mut stack, tally) = (Small::new(), Tally::new());
        assert_eq!(stack.fill(&tally, &[1, 2, 3]), 0);
        assert_eq!(stack.pop(&tally), Some(1));
        let more: std::vec::Vec<_> = (10..10 + ALL).collect();
        assert_eq!(stack.fill(&tally, &more), 2);
        assert_eq!((tally.len(), stack.pop(&tally), stack.pop(&tally)), (ALL as usize, Some(12), Some(13)));
        assert_eq!(stack.words(&tally).next(), Some(3));
    }

    #[test]
    fn what_is_pushed_together_goes_out_last_first() {
        let (mut stack, tally) = (Small::new(), Tally::new());
        let many: std::vec::Vec<_> = (0..ALL - 1).collect();
        assert_eq!(stack.push_all(&tally, &many), many.len());
        assert_eq!(stack.push_all(&tally, &[100, 101]), 1);
        assert_eq!([stack.pop(&tally), stack.pop(&tally)], [Some(100), Some(ALL - 2)]);
    }

    #[test]
    fn lots_double_while_they_go_one_way_and_start_small_after_a_turn() {
        let mut last = 0;
        let mut next = |way| {
            last = next_lot(last, way);
            (last >> 1) as usize
        };
        assert_eq!([Way::In; 4].map(&mut next), [BATCH, 2 * BATCH, MOST, MOST]);
        assert_eq!([Way::Out; 2].map(&mut next), [BATCH, 2 * BATCH]);
        assert_eq!(next(Way::In), BATCH);
    }

    #[test]
    fn a_word_keeps_frame_and_mark() {
        for frame in [(Pfn(5), Init::Zeroed), (Pfn((1 << 40) - 1), Init::Dirty)] {
            assert_eq!(unpack(pack(frame)), frame);
        }
    }
}
