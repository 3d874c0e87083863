//! What a region has, as far as a CPU that looks for one wants to know.

use super::buddy::Buddy;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use core::fmt;

/// What a region has: a word on a line of its own, as most others on it would be those of other CPUs. It is
/// written when it changes, which is seldom, and decides nothing: a CPU that finds no frame goes through all
/// regions in the end.
#[repr(align(64))]
pub(super) struct Hint<C: Cpu>(AtomicU32<C>);

/// The value of a hint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Known(u32);

/// Bits 0 and 1: how many frames are free in blocks of less than 2 MiB, by [`FLOORS`].
const FRAGMENTS: u32 = 3;
/// A block of 2 MiB or more is free.
const HUGE: u32 = 1 << 2;
/// All is free.
const WHOLE: u32 = 1 << 3;
/// A frame is free.
const SOME: u32 = 1 << 4;
/// What the holder of the region's lock writes.
const CONTENTS: u32 = FRAGMENTS | HUGE | WHOLE | SOME;
/// Many frames were given back without the lock. Cleared before they are collected, and set after the push
/// that made them many: where it is clear and there are many, the CPU that pushed is about to set it.
const RETURNED: u32 = 1 << 5;
/// A CPU has reserved the region.
const RESERVED: u32 = 1 << 6;

/// From so many on, fragments are of class 1, 2 and 3; below half of that no longer.
const FLOORS: [u64; 3] = [128, 1024, 8192];

/// What a region is wanted for. Each CPU has one region for either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Single frames, and blocks of less than 2 MiB.
    Frames,
    /// Blocks of 2 MiB and more.
    Blocks,
}

impl<C: Cpu> Hint<C> {
    /// Of a region that has nothing.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// What is known.
    pub fn get(&self) -> Known {
        Known(self.0.load(Relaxed))
    }

    /// Notes what the region has, if that changed. The caller holds the region's lock.
    pub fn note(&self, buddy: &Buddy<C>, size: u64) {
        let known = self.get();
        let contents = Known::contents(buddy, size, known);
        if known.0 & CONTENTS != contents && !mutant!("zone.hint-not-noted") {
            let _always = self.0.update(Relaxed, Relaxed, |word| Some(word & !CONTENTS | contents));
        }
    }

    /// Notes that there are many frames to collect, after the push that made them many.
    pub fn note_returned(&self) {
        // Relaxed: the push has seen what cleared it, if anything did.
        if self.0.load(Relaxed) & RETURNED == 0 {
            self.0.fetch_or(RETURNED, Relaxed);
        }
    }

    /// Before the runs of a region that no CPU has reserved are collected: notes that there are none. Whether
    /// that was news: then the list must be emptied by an exchange. That releases this, and a push after it
    /// acquires it.
    pub fn clear_returned(&self) -> bool {
        let is_set = self.get().0 & (RETURNED | RESERVED) == RETURNED;
        is_set && self.0.fetch_and(!RETURNED, Relaxed) & RETURNED != 0
    }

    /// Reserves the region for the calling CPU, if none has.
    pub fn reserve(&self) -> bool {
        let free = |word: u32| (word & RESERVED == 0).then_some(word | RESERVED);
        self.0.update(Relaxed, Relaxed, free).is_ok() || mutant!("zone.reserved-twice")
    }

    /// The region is no longer reserved.
    pub fn give_up(&self) {
        self.0.fetch_and(!RESERVED, Relaxed);
    }
}

impl Known {
    fn contents<C: Cpu>(buddy: &Buddy<C>, size: u64, before: Self) -> u32 {
        let (free, fragments) = (buddy.free_frames(), buddy.fragments());
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        Self::class(fragments, before.0 & FRAGMENTS)
            | flag(free > fragments, HUGE)
            | flag(free == size, WHOLE)
            | flag(free > 0, SOME)
    }

    /// The class of so many fragments, after `before`.
    fn class(fragments: u64, before: u32) -> u32 {
        let class = FLOORS.iter().filter(|floor| fragments >= **floor).count() as u32;
        let keeps = before > class && fragments >= FLOORS[before as usize - 1] / 2;
        if keeps { before } else { class }
    }

    /// Whether many frames were given back.
    #[cfg(test)]
    pub fn has_returned(self) -> bool {
        self.0 & RETURNED != 0
    }

    /// Whether a CPU has reserved the region.
    pub fn is_reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    /// Whether the region has many fragments that no CPU uses.
    pub fn offers_fragments(self) -> bool {
        self.0 & FRAGMENTS != 0 && !self.is_reserved()
    }

    /// Whether it is worth the lock to look for what is wanted.
    pub fn may_have(self, purpose: Purpose) -> bool {
        let wanted = match purpose {
            Purpose::Frames => SOME | RETURNED,
            Purpose::Blocks => HUGE | RETURNED,
        };
        self.0 & wanted != 0
    }

    /// How good a choice the region is for a CPU that wants one of its own; 0 where it is none. For frames
    /// the fullest of those with many fragments, before one in use, before a whole one, and last one with
    /// few fragments alone.
    pub fn worth(self, purpose: Purpose) -> u32 {
        let has = |bits: u32| self.0 & bits != 0;
        match purpose {
            _ if self.is_reserved() => 0,
            Purpose::Frames if has(FRAGMENTS) => 9 - (self.0 & FRAGMENTS),
            Purpose::Frames if has(RETURNED) => 5,
            Purpose::Frames | Purpose::Blocks if has(HUGE) => 4 - u32::from(has(WHOLE)),
            Purpose::Frames => u32::from(has(SOME)),
            Purpose::Blocks => u32::from(has(RETURNED)),
        }
    }
}

impl<C: Cpu> fmt::Debug for Hint<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#b}", self.get().0)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/hint.rs"]
mod tests;
