//! How a job is cut, as pure arithmetic: grains, shares, chunks.

use super::share::Grains;
use super::value::Job;
use core::ops::Range;

/// A job's range in grains. Grain `n` is the part of the range in `base + n * grain .. base + (n + 1) * grain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    range: Range<u64>,
    base: u64,
    grain: u64,
    /// Number of grains.
    pub(super) count: u32,
    /// The minimum chunk in grains.
    pub(super) least: u32,
    /// How many may work on it so that each has the minimum to do.
    pub(super) most_workers: u32,
}

impl Cut {
    /// `None` where there is nothing to do.
    pub(super) fn new<W>(job: &Job<'_, W>) -> Option<Self> {
        if job.range.is_empty() {
            return None;
        }
        let base = job.range.start - job.range.start % job.align;
        let (mut grain, last) = (job.align, job.range.end - 1 - base);
        while last / grain >= u64::from(u32::MAX) {
            grain = grain.saturating_mul(2);
        }
        let count = (last / grain + 1) as u32;
        let least = job.min_chunk.div_ceil(grain).clamp(1, count.into()) as u32;
        let whole_chunks = (job.range.end - job.range.start) / job.min_chunk;
        let most_workers = (count / least).min(whole_chunks.try_into().unwrap_or(u32::MAX)).max(1);
        Some(Self { range: job.range.clone(), base, grain, count, least, most_workers })
    }

    /// The range that `grains` are.
    pub(super) fn range(&self, grains: &Grains) -> Range<u64> {
        let edge = |grain: u32| self.base.saturating_add(u64::from(grain).saturating_mul(self.grain));
        edge(grains.start).max(self.range.start)..edge(grains.end).min(self.range.end)
    }

    /// The share of worker `number` of `workers`.
    pub(super) fn share(&self, number: u32, workers: u32) -> Grains {
        let edge = |number: u32| (u64::from(self.count) * u64::from(number) / u64::from(workers)) as u32;
        edge(number)..edge(number + 1)
    }

    /// The largest chunk: a fourth of a worker's share, so that what one is behind is shared by all.
    pub(super) fn most_chunk(&self, workers: u32) -> u32 {
        let pieces = if workers == 1 { 1 } else { workers.saturating_mul(4) };
        (self.count / pieces).max(self.least)
    }
}

/// A visit or a chunk should not take longer: others may want the CPU.
pub(super) const BOUND_NS: u64 = 1_000_000;

/// How many grains the next chunk has, after one of `pace` that took `took_ns`: more while that is well below the bound (16 times
/// at most: one chunk may have been a quick one), half where it is above.
pub(super) fn next_pace(pace: u32, took_ns: u64, least: u32, most: u32) -> u32 {
    if took_ns > BOUND_NS {
        return (pace / 2).max(least);
    }
    let room = (BOUND_NS / 4 / took_ns.max(1)).clamp(1, 16) as u32;
    pace.saturating_mul(room).min(most)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn cut(range: Range<u64>, align: u64, min_chunk: u64) -> Cut {
        Cut::new(&Job::new(range, ()).align(align).min_chunk(min_chunk)).unwrap()
    }

    #[test]
    fn grains_cover_a_range_that_begins_and_ends_anywhere() {
        for (start, end, align) in
            (0..20).flat_map(|s| (s + 1..40).flat_map(move |e| (1..9).map(move |a| (s, e, a))))
        {
            let cut = cut(start..end, align, 1);
            let mut at = start;
            for grain in 0..cut.count {
                let piece = cut.range(&(grain..grain + 1));
                assert!(
                    piece.start == at
                        && !piece.is_empty()
                        && (piece.end == end || piece.end.is_multiple_of(align))
                );
                at = piece.end;
            }
            assert_eq!(at, end);
        }
    }

    #[test]
    fn shares_cover_the_grains_and_each_holds_the_minimum() {
        for (count, least) in (1..60).flat_map(|c| (1..=c).map(move |l| (c, l))) {
            let cut = cut(0..count, 1, least);
            let workers = cut.most_workers;
            for workers in 1..=workers {
                let shares = (0..workers).map(|n| cut.share(n, workers));
                let end = shares.fold(0, |at, share| {
                    assert!(share.start == at && share.len() as u64 >= least);
                    share.end
                });
                assert_eq!(end, cut.count);
            }
        }
    }

    #[test]
    fn the_widest_range_and_the_largest_numbers_are_cut_without_overflow() {
        let whole = cut(0..u64::MAX, 1, 1);
        assert_eq!(whole.range(&(0..whole.count)), 0..u64::MAX);
        let end = cut(u64::MAX - 10..u64::MAX, 64, u64::MAX);
        assert_eq!((end.count, end.least, end.range(&(0..1))), (1, 1, u64::MAX - 10..u64::MAX));
        assert_eq!(cut(5..6, u64::MAX, 3).range(&(0..1)), 5..6);
    }

    #[test]
    fn chunks_grow_to_a_fourth_of_a_share_unless_they_take_long() {
        let cut = cut(0..1000, 1, 10);
        assert_eq!(cut.most_chunk(5), 50);
        assert_eq!([0, BOUND_NS / 2, BOUND_NS + 1].map(|ns| next_pace(40, ns, 10, 900)), [640, 40, 20]);
        assert_eq!((next_pace(12, BOUND_NS * 2, 10, 50), next_pace(12, BOUND_NS / 12, 10, 50)), (10, 36));
    }
}
