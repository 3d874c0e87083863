//! A stack of words, which are frames or objects, and its count.

use crate::frame::Init;
use crate::machine::Cpu;
use crate::sync::Plain;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::Pfn;
use core::marker::PhantomData;

/// A frame, and the known contents of its bytes.
pub(in crate::frame) type CachedFrame = (Pfn, Init);

/// Words, coldest first, in `S`. The number of words is kept beside it, in a [`Count`] that other CPUs may
/// read.
pub(in crate::frame) struct Stack<C: Cpu, S> {
    slots: S,
    _cpu: PhantomData<fn() -> C>,
}

/// How many words a stack holds (bits 0..11), and how many were popped since the start (bits 11..64: at a
/// hundred million a second they wrap after three years). One word, so that a pop is one store. Written by
/// the CPU that may use the stack; others read it, stale.
pub(in crate::frame) struct Count<C: Cpu>(AtomicU64<C>);

const POPPED_SHIFT: u32 = 11;
pub(in crate::frame) const LEN: u64 = (1 << POPPED_SHIFT) - 1;
const POPPED: u64 = 1 << POPPED_SHIFT;

/// Set in the word of a frame that is known to be zero.
const ZEROED: u64 = 1 << 63;

/// A frame as a word of the stack.
#[inline(always)]
pub(in crate::frame) const fn pack((pfn, init): CachedFrame) -> u64 {
    match init {
        Init::Dirty => pfn.0,
        Init::Zeroed => pfn.0 | ZEROED,
    }
}

/// The frame of a word.
#[inline(always)]
pub(in crate::frame) const fn unpack(word: u64) -> CachedFrame {
    (Pfn(word & !ZEROED), if word & ZEROED != 0 { Init::Zeroed } else { Init::Dirty })
}

impl<C: Cpu> Count<C> {
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

impl<C: Cpu, S: AsRef<[Plain<u64, C>]> + AsMut<[Plain<u64, C>]>> Stack<C, S> {
    /// An empty stack.
    ///
    /// # Panics
    /// If there are more slots than a [`Count`] counts.
    pub fn new(slots: S) -> Self {
        assert!(slots.as_ref().len() as u64 <= LEN);
        Self { slots, _cpu: PhantomData }
    }

    /// Pops the warmest word.
    #[inline(always)]
    pub fn pop(&mut self, count: &Count<C>) -> Option<u64> {
        let old = count.0.load(Relaxed);
        let left = (old & LEN).wrapping_sub(1);
        let word = self.slots.as_ref().get(left as usize)?.get();
        count.0.store(old.wrapping_add(POPPED - 1), Relaxed);
        Some(word)
    }

    /// Pushes a word; `false` where the stack is full.
    #[inline(always)]
    pub fn push(&mut self, count: &Count<C>, word: u64) -> bool {
        let old = count.0.load(Relaxed);
        let Some(slot) = self.slots.as_mut().get_mut((old & LEN) as usize) else { return false };
        slot.set(word);
        count.0.store(old + 1, Relaxed);
        true
    }

    /// Pushes words, the last one warmest, as many as fit. Returns how many.
    pub fn push_batch(&mut self, count: &Count<C>, words: &[u64]) -> usize {
        let len = count.len();
        let free = &mut self.slots.as_mut()[len..];
        let pushed = words.len().min(free.len());
        for (slot, &word) in free.iter_mut().zip(words) {
            slot.set(word);
        }
        count.set_len(len + pushed);
        pushed
    }

    /// Pushes words so that they are popped in order, the last ones where not all fit. Returns how many of
    /// the first words did not fit.
    pub fn refill(&mut self, count: &Count<C>, words: &[u64]) -> usize {
        let len = count.len();
        let free = &mut self.slots.as_mut()[len..];
        let left = words.len().saturating_sub(free.len());
        for (slot, &word) in free.iter_mut().zip(words[left..].iter().rev()) {
            slot.set(word);
        }
        count.set_len(len + words.len() - left);
        left
    }

    /// Removes the coldest words, as many as there are or `words` holds. Returns how many.
    pub fn take_coldest(&mut self, count: &Count<C>, words: &mut [u64]) -> usize {
        let len = count.len();
        let taken = len.min(words.len());
        let slots = self.slots.as_mut();
        for (to, from) in words.iter_mut().zip(&slots[..taken]) {
            *to = from.get();
        }
        if C::OBSERVED {
            for at in taken..len {
                let word = slots[at].get();
                slots[at - taken].set(word);
            }
        } else {
            slots.copy_within(taken..len, 0);
        }
        count.set_len(len - taken);
        taken
    }

    /// The words, coldest first.
    pub fn words(&self, count: &Count<C>) -> impl Iterator<Item = u64> {
        self.slots.as_ref()[..count.len()].iter().map(Plain::get)
    }
}
