//! A CPU's own stock of single frames.
//!
//! ```text
//!   alloc_frame ──► pop                                    free_frame ──► push
//!                    │ empty                                               │ full
//!                    ▼                                                     ▼
//!       one batch from the zone, in order                  the oldest batch back to the zone
//! ```
//!
//! A stack: the frame freed last is warm and goes out first. A batch comes from one block of the zone that was split once, so
//! it starts even and its records fill whole lines. What goes back is the coldest half.
//!
//! The cache's owner works on it by plain loads and stores. Another CPU that finds the zones empty claims it (`biased`), so
//! frames here are never out of reach; no allocation fails because other CPUs hold free frames. A second, shorter stack of
//! 2 MiB blocks would lie beside the first.

use super::Init;
use super::biased::Biased;
use crate::machine::Cpu;
use crate::sync::Plain;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::units::Pfn;
use core::fmt;

/// Frames that move between a zone and a cache at once.
pub const BATCH: usize = 32;
/// The most frames that a cache holds.
pub const CAPACITY: usize = 2 * BATCH;

/// A frame and what its bytes are known to be.
pub(super) type Stocked = (Pfn, Init);
/// Words on their way between a stack and where it is filled from.
pub(super) type Batch = [u64; BATCH];

/// A CPU's cache and counts. The counts are written by their CPU alone, in plain stores; others read them, stale.
///
/// Every frame that came in is cached, handed out, or went back: `came_in + pgfree = pgalloc + cached + went_out + drained`.
/// `pgfree` is not stored but follows.
pub(super) struct CpuCache<C: Cpu> {
    pub frames: Biased<Stack<C>, C>,
    /// Frames in the stack. Written by who may use the stack.
    pub cached: AtomicU32<C>,
    /// Frames handed out on this CPU.
    pub pgalloc: AtomicU64<C>,
    /// Frames that came from a zone.
    pub came_in: AtomicU64<C>,
    /// Frames that went back to a zone.
    pub went_out: AtomicU64<C>,
    /// Frames that claimants took out. Written under the drain lock.
    pub drained: AtomicU64<C>,
}

/// Words, coldest first. How many is kept beside it, where others may read it.
pub(super) struct Stack<C: Cpu> {
    slots: [Plain<u64, C>; CAPACITY],
}

/// Set in the word of a frame that is known to be zero.
const ZEROED: u64 = 1 << 63;

/// A frame as a word of the stack.
pub(super) const fn pack((pfn, init): Stocked) -> u64 {
    match init {
        Init::Dirty => pfn.0,
        Init::Zeroed => pfn.0 | ZEROED,
    }
}

/// The frame of a word.
pub(super) const fn unpack(word: u64) -> Stocked {
    (Pfn(word & !ZEROED), if word & ZEROED != 0 { Init::Zeroed } else { Init::Dirty })
}

impl<C: Cpu> CpuCache<C> {
    pub fn new() -> Self {
        Self {
            frames: Biased::new(Stack::new()),
            cached: AtomicU32::new(0),
            pgalloc: AtomicU64::new(0),
            came_in: AtomicU64::new(0),
            went_out: AtomicU64::new(0),
            drained: AtomicU64::new(0),
        }
    }

    /// Frames freed on this CPU.
    pub fn pgfree(&self) -> u64 {
        let out = self.pgalloc.load(Relaxed)
            + u64::from(self.cached.load(Relaxed))
            + self.went_out.load(Relaxed)
            + self.drained.load(Relaxed);
        out.wrapping_sub(self.came_in.load(Relaxed))
    }

    /// The part that its owner uses and a claimant may claim.
    pub fn part(&self) -> &Biased<Stack<C>, C> {
        &self.frames
    }
}

impl<C: Cpu> Stack<C> {
    /// An empty stack.
    pub const fn new() -> Self {
        Self { slots: [const { Plain::new(0) }; CAPACITY] }
    }

    /// Takes the warmest word.
    #[inline(always)]
    pub fn pop(&mut self, cached: &AtomicU32<C>) -> Option<u64> {
        let left = cached.load(Relaxed).wrapping_sub(1);
        let word = self.slots.get(left as usize)?.get();
        cached.store(left, Relaxed);
        Some(word)
    }

    /// Stocks a word; `false` where there is no room.
    #[inline(always)]
    pub fn push(&mut self, cached: &AtomicU32<C>, word: u64) -> bool {
        let len = cached.load(Relaxed);
        let Some(slot) = self.slots.get_mut(len as usize) else { return false };
        slot.set(word);
        cached.store(len + 1, Relaxed);
        true
    }

    /// Takes the coldest batch, or all there is. Returns how many.
    pub fn shift(&mut self, cached: &AtomicU32<C>, batch: &mut Batch) -> usize {
        let len = cached.load(Relaxed) as usize;
        let taken = len.min(BATCH);
        for (to, from) in batch.iter_mut().zip(&self.slots[..taken]) {
            *to = from.get();
        }
        for at in taken..len {
            let word = self.slots[at].get();
            self.slots[at - taken].set(word);
        }
        cached.store((len - taken) as u32, Relaxed);
        taken
    }

    /// The words, coldest first.
    pub fn words(&self, cached: &AtomicU32<C>) -> impl Iterator<Item = u64> {
        self.slots[..cached.load(Relaxed) as usize].iter().map(Plain::get)
    }
}

impl<C: Cpu> fmt::Debug for CpuCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} frames cached", self.cached)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestCpu;

    #[test]
    fn the_warmest_goes_out_first_and_the_coldest_goes_back() {
        let (mut stack, cached) = (Stack::<TestCpu>::new(), AtomicU32::new(0));
        assert!((0..CAPACITY as u64).all(|word| stack.push(&cached, word)));
        assert!(!stack.push(&cached, 99));
        assert_eq!(stack.pop(&cached), Some(CAPACITY as u64 - 1));
        let mut batch = [0; BATCH];
        assert_eq!(stack.shift(&cached, &mut batch), BATCH);
        assert_eq!((batch[0], batch[BATCH - 1]), (0, BATCH as u64 - 1));
        assert_eq!(stack.words(&cached).next(), Some(BATCH as u64));
        assert_eq!(stack.shift(&cached, &mut batch), BATCH - 1);
        assert_eq!((stack.pop(&cached), cached.load(Relaxed)), (None, 0));
    }

    #[test]
    fn a_word_keeps_frame_and_mark() {
        for frame in [(Pfn(5), Init::Zeroed), (Pfn((1 << 40) - 1), Init::Dirty)] {
            assert_eq!(unpack(pack(frame)), frame);
        }
    }
}
