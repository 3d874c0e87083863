//! A share of a job: a range of grains in one word, and how it is cut.
//!
//! A *grain* is the smallest piece that the alignment allows (or a multiple, where there would be too many to
//! count in 32 bits). The word is `front << 32 | back`: grains `front..back` are not yet begun. There is one
//! share for the workers of each node (nodes are folded onto a few shares): the caller takes from the front
//! of its node's, helpers from the back of theirs, and a thief from elsewhere the back half; all by
//! compare-and-exchange.
//!
//! | word | means |
//! |---|---|
//! | `front < back` | grains that whoever takes them first does |
//! | `front >= back` | nothing |
//! | all ones | nothing, but somebody of this node is stealing, and will put in what it gets |
//!
//! A word may come back to a value that it had (a piece that was stolen is stolen back): its value is the
//! whole truth about it, so an exchange that finds it again is right. A grain is in one word or in one
//! worker's hands, never in both; and a worker holds one chunk, but for the thief between its two steps, so
//! one that pauses, or goes, leaves nothing behind that only it can do.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use core::ops::Range;

/// Grains, by number.
pub(super) type Grains = Range<u32>;

/// No count of grains reaches this.
const FILLING: u64 = u64::MAX;

const fn pack(grains: &Grains) -> u64 {
    (grains.start as u64) << 32 | grains.end as u64
}

const fn unpack(word: u64) -> Grains {
    (word >> 32) as u32..word as u32
}

/// How many grains there are.
pub(super) const fn len(word: u64) -> u32 {
    let Grains { start, end } = unpack(word);
    end.saturating_sub(start)
}

/// Cuts `wanted` grains off the front; everything where less than `least` would stay.
#[inline]
fn cut_front(word: u64, wanted: u32, least: u32) -> Option<(Grains, u64)> {
    let Grains { start, end } = unpack(word);
    let have = Some(len(word)).filter(|&have| have > 0)?;
    let take = if have - wanted.min(have) < least { have } else { wanted };
    Some((start..start + take, pack(&(start + take..end))))
}

/// Cuts them off the back; everything where less than `least` would stay, or would be taken.
#[inline]
fn cut_back(word: u64, wanted: u32, least: u32) -> Option<(Grains, u64)> {
    let Grains { start, end } = unpack(word);
    let have = Some(len(word)).filter(|&have| have > 0)?;
    let take = if wanted < least || have - wanted.min(have) < least { have } else { wanted };
    Some((end - take..end, pack(&(start..end - take))))
}

/// What a node's workers have still to begin.
pub(super) struct Share<C: Cpu> {
    /// See the module. Relaxed: grains carry no data; the work itself is ordered by visits, and by nothing
    /// among workers.
    word: AtomicU64<C>,
}

impl<C: Cpu> Share<C> {
    pub(super) const fn of(grains: &Grains) -> Self {
        Self { word: AtomicU64::new(pack(grains)) }
    }

    /// Takes from the front as many grains as `wanted` makes of what there is, and a rest that is less than
    /// `least` along with them.
    pub(super) fn take(&self, wanted: impl Fn(u32) -> u32, least: u32) -> Option<Grains> {
        self.cut(|word| cut_front(word, wanted(len(word)), least))
    }

    /// The same from the back.
    pub(super) fn take_back(&self, wanted: impl Fn(u32) -> u32, least: u32) -> Option<Grains> {
        self.cut(|word| cut_back(word, wanted(len(word)), least))
    }

    /// A thief takes the back half.
    pub(super) fn steal(&self, least: u32) -> Option<Grains> {
        self.take_back(|have| have / 2, least)
    }

    /// Has nobody else fill this empty share, until [`Share::fill`]. False where somebody does, or it is not
    /// empty.
    pub(super) fn begin_filling(&self) -> bool {
        let begun = |word| (len(word) == 0 && word != FILLING).then_some(FILLING);
        self.word.update(Relaxed, Relaxed, begun).is_ok()
    }

    /// Puts in what was stolen.
    pub(super) fn fill(&self, grains: Grains) {
        debug_assert_eq!(self.word.load(Relaxed), FILLING);
        self.word.store(pack(&grains), Relaxed);
    }

    /// Takes everything, where nobody else can be here.
    pub(super) fn take_all(&self) -> Grains {
        let rest = self.rest();
        self.word.store(0, Relaxed);
        rest
    }

    /// What is not yet begun; stale at once while others work.
    pub(super) fn rest(&self) -> Grains {
        unpack(self.word.load(Relaxed))
    }

    /// What is taken is what the exchange that took effect was for: another look at how much is wanted may
    /// see another answer.
    fn cut(&self, cut: impl Fn(u64) -> Option<(Grains, u64)>) -> Option<Grains> {
        let mut taken = None;
        let rest_of = |word| {
            let (grains, rest) = cut(word)?;
            taken = Some(grains);
            Some(rest)
        };
        self.word.update(Relaxed, Relaxed, rest_of).ok()?;
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestCpu;
    use core::cell::Cell;

    /// As it is while another worker learns how long chunks should be.
    #[test]
    fn nothing_is_lost_where_another_look_at_how_much_is_wanted_sees_another_answer() {
        let (share, asked) = (Share::<TestCpu>::of(&(0..1000)), Cell::new(0));
        let wanted = |_| {
            asked.set(asked.get() + 1);
            asked.get()
        };
        let mut left = 0..1000;
        while !left.is_empty() {
            let front = share.take(wanted, 1).unwrap();
            assert_eq!(front.start, left.start);
            left.start = front.end;
            if let Some(back) = share.take_back(wanted, 1) {
                assert_eq!(back.end, left.end);
                left.end = back.start;
            }
            assert!(share.rest() == left || share.rest().is_empty() && left.is_empty());
        }
    }

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
            let (stolen, rest) = cut_back(word, wanted, least).unwrap();
            assert_eq!((unpack(rest).start, unpack(rest).end, stolen.end), (7, stolen.start, 7 + have));
            assert!(stolen.len() as u32 == have || stolen.len() as u32 >= least);
            assert!(unpack(rest).is_empty() || unpack(rest).len() as u32 >= least);
        }
        assert_eq!(
            (cut_front(pack(&(3..3)), 1, 1), cut_back(0, 1, 1), cut_back(FILLING, 1, 1)),
            (None, None, None)
        );
    }
}
