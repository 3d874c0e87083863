//! How many helpers look for work, sleep, and are at work: one word for all.
//!
//! ```text
//!            enter            begin
//!   away --------> looking <--------> at work
//!        <--------    | ^    end
//!          leave doze v | rouse
//!                    sleeping
//! ```
//!
//! Callers read it when they show work: while somebody looks, nobody need be woken. Ten bits for each count, lowest first: looking,
//! sleeping, at work. Relaxed where it is counted: what must be ordered is ordered by the fences of [`super::round`].

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};

const LOOKING: u32 = 1;
const SLEEPING: u32 = 1 << 10;
const AT_WORK: u32 = 1 << 20;
/// More are never at work, whatever the cap: what is counted must fit.
const LIMIT: u32 = 511;

const fn count(word: u32, unit: u32) -> u32 {
    (word / unit) & 1023
}

/// See the module.
pub(super) struct Crowd<C: Cpu> {
    counts: Counts<C>,
    /// So many may be at work. Relaxed: nothing hangs on when it is seen.
    most: AtomicU32<C>,
    /// How many look, sleep or are at work that was shown: a caller asks before it shows any, and finds it changed only when
    /// somebody has come or gone. Relaxed, as `most`.
    present: AtomicU32<C>,
}

/// A line of its own: it changes hands with each visit, and what is beside it is read by every caller.
#[repr(align(64))]
struct Counts<C: Cpu> {
    word: AtomicU32<C>,
}

impl<C: Cpu> Crowd<C> {
    pub(super) const fn new() -> Self {
        Self {
            counts: Counts { word: AtomicU32::new(0) },
            most: AtomicU32::new(LIMIT),
            present: AtomicU32::new(0),
        }
    }

    pub(super) fn set_most(&self, most: u32) {
        self.most.store(most.min(LIMIT), Relaxed);
    }

    /// How many may be at work beside those that are; stale at once.
    pub(super) fn room_racy(&self) -> u32 {
        self.most.load(Relaxed).saturating_sub(count(self.counts.word.load(Relaxed), AT_WORK))
    }

    /// How many there are, but no more than may be at work; stale at once.
    #[inline]
    pub(super) fn present_racy(&self) -> u32 {
        self.present.load(Relaxed).min(self.most.load(Relaxed))
    }

    /// Whether somebody sleeps, and, of that the reason to care, whether nobody looks. `SeqCst`: behind the fences of
    /// [`super::round`].
    #[inline]
    pub(super) fn sleeps_and_nobody_looks(&self) -> (bool, bool) {
        let word = self.counts.word.load(SeqCst);
        (count(word, SLEEPING) > 0, count(word, LOOKING) == 0)
    }

    /// Somebody looks from now on.
    pub(super) fn enter(&self) {
        self.present.fetch_add(1, Relaxed);
        self.counts.word.fetch_add(LOOKING, Relaxed);
    }

    /// Who looked is away.
    pub(super) fn leave(&self) {
        self.counts.word.fetch_sub(LOOKING, Relaxed);
        self.present.fetch_sub(1, Relaxed);
    }

    /// Who looked is at work, if the cap allows it.
    pub(super) fn begin(&self) -> bool {
        let most = self.most.load(Relaxed);
        let begun = |word: u32| (count(word, AT_WORK) < most).then(|| word + AT_WORK - LOOKING);
        self.counts.word.update(Relaxed, Relaxed, begun).is_ok()
    }

    /// Who was at work looks again.
    pub(super) fn end(&self) {
        self.counts.word.fetch_sub(AT_WORK - LOOKING, Relaxed);
    }

    /// Who looked sleeps.
    pub(super) fn doze(&self) {
        self.counts.word.fetch_add(SLEEPING - LOOKING, Relaxed);
    }

    /// Who slept looks.
    pub(super) fn rouse(&self) {
        self.counts.word.fetch_sub(SLEEPING - LOOKING, Relaxed);
    }

    /// Counts up to `want` more as being at work, under the cap, and says how many; to be given back with [`Crowd::release`].
    pub(super) fn reserve(&self, want: u32) -> u32 {
        let most = self.most.load(Relaxed);
        let granted = |word: u32| want.min(most.saturating_sub(count(word, AT_WORK)));
        self.counts
            .word
            .update(Relaxed, Relaxed, |word| Some(word + granted(word) * AT_WORK).filter(|&sum| sum > word))
            .map_or(0, granted)
    }

    pub(super) fn release(&self, reserved: u32) {
        self.counts.word.fetch_sub(reserved * AT_WORK, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestCpu;

    #[test]
    fn counts_do_not_run_into_each_other_and_the_cap_holds() {
        let crowd = Crowd::<TestCpu>::new();
        (0..256).for_each(|_| crowd.enter());
        (0..100).for_each(|_| crowd.doze());
        assert!(
            (0..156).all(|_| crowd.begin())
                && crowd.sleeps_and_nobody_looks() == (true, true)
                && crowd.present_racy() == 256
        );
        assert_eq!((crowd.reserve(1000), crowd.reserve(1), crowd.room_racy()), (511 - 156, 0, 0));
        crowd.release(511 - 156);
        (0..100).for_each(|_| crowd.rouse());
        crowd.set_most(156);
        assert!(!crowd.begin() && !crowd.sleeps_and_nobody_looks().0);
        (0..156).for_each(|_| crowd.end());
        (0..256).for_each(|_| crowd.leave());
        assert_eq!((crowd.counts.word.load(Relaxed), crowd.reserve(0)), (0, 0));
    }
}
