//! What a region has, as far as a CPU that looks for one wants to know.

use super::buddy::Buddy;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::units::Order;
use core::fmt;

/// What a region has: words on a line of their own, as most others on it would be those of other CPUs. They
/// are written when they change, and decide nothing: a CPU that finds no frame goes through all regions in
/// the end.
#[repr(align(64))]
pub(super) struct Hint<C: Cpu> {
    /// What is free, as the holder of the region's lock has noted it, which alone writes it.
    contents: AtomicU32<C>,
    /// [`RETURNED`] and [`RESERVED`].
    flags: AtomicU32<C>,
}

/// The value of a hint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Known(u32);

/// How much of the region is free, in [`PARTS`], rounded up.
const FREE: u32 = 31;
/// The order of the largest free block of less than 2 MiB, plus one.
const FRAGMENT: u32 = 15 << FRAGMENT_SHIFT;
const FRAGMENT_SHIFT: u32 = 5;
/// Many frames are free in blocks of less than 2 MiB: [`FLOOR`], until there are less than half of that.
const MANY: u32 = 1 << 9;
/// A block of 2 MiB or more is free.
const HUGE: u32 = 1 << 10;
/// Many frames were given back without the lock. Cleared before they are collected, and set after the push
/// that made them many: where it is clear and there are many, the CPU that pushed is about to set it.
const RETURNED: u32 = 1 << 11;
/// A CPU has reserved the region.
const RESERVED: u32 = 1 << 12;

/// Parts of a region: the unit of how much is free.
const PARTS: u64 = 16;
/// So many fragments are many.
const FLOOR: u64 = 128;

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
        Self { contents: AtomicU32::new(0), flags: AtomicU32::new(0) }
    }

    /// What is known.
    pub fn get(&self) -> Known {
        Known(self.contents.load(Relaxed) | self.flags.load(Relaxed))
    }

    /// Notes what the region has, if that changed. The caller holds the region's lock.
    pub fn note(&self, buddy: &Buddy<C>, size: u64) {
        let before = self.contents.load(Relaxed);
        let contents = Known::contents(buddy, size, before);
        if before != contents && !mutant!("zone.hint-not-noted") {
            self.contents.store(contents, Relaxed);
        }
    }

    /// Notes that there are many frames to collect, after the push that made them many.
    pub fn note_returned(&self) {
        // Relaxed: the push has seen what cleared it, if anything did.
        if self.flags.load(Relaxed) & RETURNED == 0 {
            self.flags.fetch_or(RETURNED, Relaxed);
        }
    }

    /// Before the runs of a region that no CPU has reserved are collected: notes that there are none. Whether
    /// that was news: then the list must be emptied by an exchange. That releases this, and a push after it
    /// acquires it.
    pub fn clear_returned(&self) -> bool {
        let is_set = self.flags.load(Relaxed) & (RETURNED | RESERVED) == RETURNED;
        is_set && self.flags.fetch_and(!RETURNED, Relaxed) & RETURNED != 0
    }

    /// Reserves the region for the calling CPU, if none has.
    pub fn reserve(&self) -> bool {
        let free = |word: u32| (word & RESERVED == 0).then_some(word | RESERVED);
        self.flags.update(Relaxed, Relaxed, free).is_ok() || mutant!("zone.reserved-twice")
    }

    /// The region is no longer reserved.
    pub fn give_up(&self) {
        self.flags.fetch_and(!RESERVED, Relaxed);
    }
}

impl Known {
    fn contents<C: Cpu>(buddy: &Buddy<C>, size: u64, before: u32) -> u32 {
        let (free, fragments) = (buddy.free_frames(), buddy.fragments());
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let largest = if fragments == 0 { None } else { buddy.largest_fragment() };
        let floor = if before & MANY != 0 { FLOOR / 2 } else { FLOOR };
        Self::parts(free, size, before & FREE)
            | largest.map_or(0, |order| u32::from(order.0) + 1) << FRAGMENT_SHIFT
            | flag(fragments >= floor, MANY)
            | flag(free > fragments, HUGE)
    }

    /// How many parts of `size` are free, after `before`: one fewer only when half of that one is in use. 0
    /// where nothing is free, and only there.
    fn parts(free: u64, size: u64, before: u32) -> u32 {
        let parts = (free * PARTS).div_ceil(size) as u32;
        let and_half = (free * PARTS + size / 2).div_ceil(size) as u32;
        if parts > 0 && before == and_half { before } else { parts }
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

    /// How much is free, in parts of the region: the less, the better a choice.
    pub fn free(self) -> u32 {
        let free = self.0 & FREE;
        if mutant!("zone.emptiest-first") { FREE - free } else { free }
    }

    /// Whether the region has a fragment for a block of this order; for single frames, many.
    pub fn has_fragments(self, order: Order) -> bool {
        match order {
            Order::BASE => self.0 & (MANY | RETURNED) != 0,
            order => (self.0 & FRAGMENT) >> FRAGMENT_SHIFT > order.0.into(),
        }
    }

    /// Whether it is worth the lock to look for what is wanted.
    pub fn may_have(self, purpose: Purpose) -> bool {
        let wanted = match purpose {
            Purpose::Frames => FREE | RETURNED,
            Purpose::Blocks => HUGE | RETURNED,
        };
        self.0 & wanted != 0
    }

    /// How good a choice the region is for a CPU that wants one of its own for blocks of `order`; 0 where it
    /// is none. First those where no block of 2 MiB is split for it; of either kind the fullest.
    pub fn worth(self, order: Order) -> u32 {
        let has = |bits: u32| self.0 & bits != 0;
        let is_small = order < Order::HUGE;
        let fullest = FREE - self.free();
        match () {
            () if self.is_reserved() => 0,
            () if is_small && self.has_fragments(order) => 100 + fullest,
            () if has(HUGE) => 50 + fullest,
            () if has(RETURNED) => 2,
            () => u32::from(is_small && has(FREE)),
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
