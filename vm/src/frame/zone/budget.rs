//! How many free frames of a zone may still be taken, without a line that every allocation writes.
//!
//! Each free or deferred frame of a zone is counted once: in the *credit* of the region that has it, which
//! only the holder of the region's lock changes, or here, *unassigned*. A region takes credit for the frames
//! it has when it needs some, and leaves here at least [`Watermark::high`]: so what a region has credit for
//! may be taken at any priority, and no other line is written.
//!
//! Where regions have frames and no credit, the zone is *settled*: all credit comes back here, and from then
//! on every allocation and every free counts here, exactly, down to what the priority leaves. That ends when
//! there is plenty again.

use super::Watermark;
use crate::frame::Priority;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::Order;

/// The unassigned frames of a zone.
#[derive(Debug)]
pub(super) struct Budget<C: Cpu> {
    mark: Watermark,
    /// Twice the number of unassigned frames, plus [`EXACT`] while the zone is settled. Relaxed: a count; the
    /// frames themselves pass under the locks of regions.
    word: AtomicU64<C>,
}

/// No region takes credit: what is unassigned is all that there is, once the regions were asked for theirs.
const EXACT: u64 = 1;
const FRAME: u64 = 2;

impl<C: Cpu> Budget<C> {
    /// Of a zone without frames.
    pub fn new(mark: Watermark) -> Self {
        Self { mark, word: AtomicU64::new(EXACT) }
    }

    /// Whether every frame is counted here when it is taken or freed. Where the caller holds the lock of a
    /// region, that region has no credit then, or is asked for it after the lock is released.
    pub fn is_exact(&self) -> bool {
        self.word.load(Relaxed) & EXACT != 0
    }

    /// From now on every frame is counted here. The caller asks all regions for their credit next.
    pub fn be_exact(&self) {
        if !self.is_exact() {
            self.word.fetch_or(EXACT, Relaxed);
        }
    }

    /// Whether `priority` may take `frames`, as far as can be told here: `true` unless the zone is settled.
    pub fn may_allow(&self, frames: u64, priority: Priority) -> bool {
        let word = self.word.load(Relaxed);
        word & EXACT == 0 || self.mark.allows(word / FRAME, priority) >= frames
    }

    /// How many of the unassigned frames `priority` may take.
    pub fn allowed(&self, priority: Priority) -> u64 {
        self.mark.allows(self.word.load(Relaxed) / FRAME, priority)
    }

    /// Credit for at most `most` frames. None while the zone is settled.
    pub fn assign(&self, most: u64) -> u64 {
        let share = |word: u64| match word & EXACT {
            0 => most.min((word / FRAME).saturating_sub(self.mark.high)),
            _ => 0,
        };
        self.take_by(share)
    }

    /// Takes between `least` and `most` frames; 0 where `priority` may not have the least.
    pub fn take(&self, least: u64, most: u64, priority: Priority) -> u64 {
        self.take_by(|word| {
            let unassigned = word / FRAME;
            let allowed = match word & EXACT {
                0 => unassigned.saturating_sub(self.mark.high),
                _ => self.mark.allows(unassigned, priority),
            };
            if allowed < least { 0 } else { most.min(allowed) }
        })
    }

    /// Takes at most `most` frames for a CPU's cache: what any request may have, or one that only `priority`
    /// may.
    pub fn take_for_cache(&self, most: u64, priority: Priority) -> u64 {
        match self.take(1, most, priority.min(Priority::Normal)) {
            0 if priority > Priority::Normal => self.take(1, 1, priority),
            taken => taken,
        }
    }

    /// The unassigned frames.
    pub fn unassigned(&self) -> u64 {
        self.word.load(Relaxed) / FRAME
    }

    /// Takes as many frames as `share` says of the word, if that is not 0.
    fn take_by(&self, share: impl Fn(u64) -> u64) -> u64 {
        let mut old = self.word.load(Relaxed);
        loop {
            let taken = share(old);
            if taken == 0 {
                return 0;
            }
            match self.word.compare_exchange(old, self.unless_plenty(old - taken * FRAME), Relaxed, Relaxed) {
                Ok(_) => return taken,
                Err(now) => old = now,
            }
        }
    }

    /// Adds frames that were freed while the zone is settled.
    pub fn add(&self, frames: u64) {
        let add = |word| Some(self.unless_plenty(word + frames * FRAME));
        let _always = self.word.update(Relaxed, Relaxed, add);
    }

    /// Adds the credit of a region that is asked for it, or frames that are deferred. The zone stays settled.
    pub fn add_back(&self, frames: u64) {
        self.word.fetch_add(frames * FRAME, Relaxed);
    }

    /// As where there is plenty.
    #[cfg(all(test, loom))]
    pub fn be_plenty(&self) {
        self.word.fetch_and(!EXACT, Relaxed);
    }

    /// The word, no longer exact where there is plenty: so much that a region gets credit for a block of any
    /// order.
    fn unless_plenty(&self, word: u64) -> u64 {
        let is_plenty = word / FRAME > 2 * (self.mark.high + Order::MAX.frames());
        if is_plenty { word & !EXACT } else { word }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../tests/budget.rs"]
mod tests;
