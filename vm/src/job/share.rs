//! A worker's share of a job: a range of grains in one word, and how it is cut.
//!
//! A *grain* is the smallest piece that the alignment allows (or a multiple, where there would be too many to count in 32 bits).
//! The word is `front << 32 | back`: grains `front..back` are not yet begun. Its owner takes from the front, a thief the back half;
//! both by compare-and-exchange. Only the owner puts grains in, and only when the word is empty.
//!
//! | word | means |
//! |---|---|
//! | `front < back` | grains that whoever takes them first does |
//! | `front >= back` | nothing |
//!
//! A word may come back to a value that it had (a piece that was stolen is stolen back): its value is the whole truth about it, so
//! an exchange that finds it again is right. A grain is in one word or in one worker's hands, never in both.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use core::ops::Range;

/// Grains, by number.
pub(super) type Grains = Range<u32>;

const fn pack(grains: &Grains) -> u64 {
    (grains.start as u64) << 32 | grains.end as u64
}

const fn unpack(word: u64) -> Grains {
    (word >> 32) as u32..word as u32
}

/// Cuts `wanted` grains off the front; everything where less than `least` would stay.
fn cut_front(word: u64, wanted: u32, least: u32) -> Option<(Grains, u64)> {
    let Grains { start, end } = unpack(word);
    let have = end.checked_sub(start).filter(|&have| have > 0)?;
    let take = if have - wanted.min(have) < least { have } else { wanted };
    Some((start..start + take, pack(&(start + take..end))))
}

/// Cuts the back half off; everything where a half would be less than `least`.
fn cut_back(word: u64, least: u32) -> Option<(Grains, u64)> {
    let Grains { start, end } = unpack(word);
    let have = end.checked_sub(start).filter(|&have| have > 0)?;
    let take = if have / 2 < least { have } else { have / 2 };
    Some((end - take..end, pack(&(start..end - take))))
}

/// Splits what was stolen into a chunk and the rest, as an owner would.
pub(super) fn split(stolen: Grains, wanted: u32, least: u32) -> (Grains, Grains) {
    match cut_front(pack(&stolen), wanted, least) {
        Some((first, rest)) => (first, unpack(rest)),
        None => (stolen, 0..0),
    }
}

/// What a worker has still to do, and what it broke off.
pub(crate) struct Share<C: Cpu> {
    /// See the module. Relaxed: grains carry no data; the work itself is ordered by visits, and by nothing among workers.
    word: AtomicU64<C>,
    /// What a chunk that failed did not do, in the job's own numbers. Written once, by the worker; read by the caller once the
    /// worker has left: relaxed.
    lost_from: AtomicU64<C>,
    lost_to: AtomicU64<C>,
}

impl<C: Cpu> Share<C> {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU64::new(0), lost_from: AtomicU64::new(0), lost_to: AtomicU64::new(0) }
    }

    /// Begins a job with `grains`. Nobody else looks yet.
    pub(super) fn begin(&self, grains: Grains) {
        self.word.store(pack(&grains), Relaxed);
        self.lost_from.store(0, Relaxed);
        self.lost_to.store(0, Relaxed);
    }

    /// The owner takes up to `wanted` grains, and a rest that is less than `least` along with them.
    pub(super) fn take(&self, wanted: u32, least: u32) -> Option<Grains> {
        self.cut(|word| cut_front(word, wanted, least))
    }

    /// A thief takes the back half.
    pub(super) fn steal(&self, least: u32) -> Option<Grains> {
        self.cut(|word| cut_back(word, least))
    }

    /// The owner, which has nothing, puts in what it stole.
    pub(super) fn put(&self, grains: Grains) {
        debug_assert!(self.rest().is_empty());
        self.word.store(pack(&grains), Relaxed);
    }

    /// What is not yet begun; stale at once while others work.
    pub(super) fn rest(&self) -> Grains {
        unpack(self.word.load(Relaxed))
    }

    /// Notes what a chunk that failed did not do.
    pub(super) fn lose(&self, range: Range<u64>) {
        self.lost_from.store(range.start, Relaxed);
        self.lost_to.store(range.end, Relaxed);
    }

    /// What a chunk that failed did not do.
    pub(super) fn lost(&self) -> Range<u64> {
        self.lost_from.load(Relaxed)..self.lost_to.load(Relaxed)
    }

    fn cut(&self, cut: impl Fn(u64) -> Option<(Grains, u64)>) -> Option<Grains> {
        let was = self.word.update(Relaxed, Relaxed, |word| cut(word).map(|(_, rest)| rest)).ok()?;
        cut(was).map(|(grains, _)| grains)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn both_cuts_lose_nothing_and_leave_no_crumbs() {
        for (have, least, wanted) in
            (1..40).flat_map(|h| (1..12).flat_map(move |l| (l..20).map(move |w| (h, l, w))))
        {
            let word = pack(&(7..7 + have));
            let (taken, rest) = cut_front(word, wanted, least).unwrap();
            assert_eq!((taken.start, taken.end, unpack(rest).end), (7, unpack(rest).start, 7 + have));
            assert!(
                taken.len() as u32 >= wanted.min(have) && unpack(rest).len() as u32 != 0
                    || taken.len() as u32 == have
            );
            assert!(unpack(rest).is_empty() || unpack(rest).len() as u32 >= least);
            let (stolen, rest) = cut_back(word, least).unwrap();
            assert_eq!((unpack(rest).start, unpack(rest).end, stolen.end), (7, stolen.start, 7 + have));
            assert!(stolen.len() as u32 == have || stolen.len() as u32 >= least);
            assert!(unpack(rest).is_empty() || unpack(rest).len() as u32 >= least);
        }
        assert_eq!((cut_front(pack(&(3..3)), 1, 1), cut_back(0, 1)), (None, None));
    }
}
