//! How many helpers look for work, sleep, and are at work.
//!
//! ```text
//!            enter            begin
//!   away --------> looking <--------> at work
//!        <--------    | ^    end
//!          leave doze v | rouse
//!                    sleeping
//! ```
//!
//! Callers ask when they show work: while nobody sleeps, or somebody looks, nobody need be woken. Those that
//! sleep are counted by themselves: callers ask for them first, and find the count changed only where
//! somebody has fallen asleep; the word that changes with each visit is the helpers'. On the way from one
//! count to the other a helper is in both, so that it is never overlooked. Relaxed where it is counted: what
//! must be ordered is ordered by the fences of [`super::round`].

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};

// Ten bits for each.
const LOOKING: u32 = 1;
const AT_WORK: u32 = 1 << 10;
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
    /// How many look, sleep or are at work that was shown: a caller asks before it shows any, and finds it
    /// changed only when somebody has come or gone. Relaxed, as `most`.
    present: AtomicU32<C>,
    sleeping: AtomicU32<C>,
}

/// How many look, and are at work. A line of its own: it changes with each visit, and what is beside it is
/// read by every caller.
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
            sleeping: AtomicU32::new(0),
        }
    }

    pub(super) fn set_max_helpers(&self, most: u32) {
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

    /// Whether somebody sleeps. `SeqCst`, as [`Crowd::nobody_looks`]: behind the fences of [`super::round`].
    #[inline]
    pub(super) fn somebody_sleeps(&self) -> bool {
        self.sleeping.load(SeqCst) > 0
    }

    /// Whether nobody looks, who would find what is shown; to be asked behind [`Crowd::somebody_sleeps`].
    #[inline]
    pub(super) fn nobody_looks(&self) -> bool {
        count(self.counts.word.load(SeqCst), LOOKING) == 0
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
        self.sleeping.fetch_add(1, Relaxed);
        self.counts.word.fetch_sub(LOOKING, Relaxed);
    }

    /// Who slept looks.
    pub(super) fn rouse(&self) {
        self.counts.word.fetch_add(LOOKING, Relaxed);
        self.sleeping.fetch_sub(1, Relaxed);
    }

    /// Counts up to `want` more as being at work, under the cap, and says how many; to be given back with
    /// [`Crowd::release`].
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
                && crowd.somebody_sleeps()
                && crowd.nobody_looks()
                && crowd.present_racy() == 256
        );
        assert_eq!((crowd.reserve(1000), crowd.reserve(1), crowd.room_racy()), (511 - 156, 0, 0));
        crowd.release(511 - 156);
        (0..100).for_each(|_| crowd.rouse());
        crowd.set_max_helpers(156);
        assert!(!crowd.begin() && !crowd.somebody_sleeps());
        (0..156).for_each(|_| crowd.end());
        (0..256).for_each(|_| crowd.leave());
        assert_eq!((crowd.counts.word.load(Relaxed), crowd.reserve(0)), (0, 0));
    }
}
