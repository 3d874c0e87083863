//! How a job is cut, as pure arithmetic: grains, shares, chunks.

use super::share::Grains;
use super::value::Job;
use core::ops::Range;

/// A job's range in grains. Grain `n` is the part of the range in `base + n * grain .. base + (n + 1) *
/// grain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    base: u64,
    grain: u64,
    /// Number of grains.
    pub(super) count: u32,
    /// The minimum chunk in grains.
    pub(super) least: u32,
    /// Whether grain `n` is the `n`th number of the job's range.
    pub(super) is_plain: bool,
}

impl Cut {
    /// `None` where there is nothing to do.
    #[inline]
    pub(super) fn new<W>(job: &Job<'_, W>) -> Option<Self> {
        if job.range.is_empty() {
            return None;
        }
        let length = job.range.end - job.range.start;
        if job.align == 1 && job.min_chunk == 1 && length < u64::from(u32::MAX) {
            // The usual case, without five divisions.
            return Some(Self {
                base: job.range.start,
                grain: 1,
                count: length as u32,
                least: 1,
                is_plain: true,
            });
        }
        let base = job.range.start - job.range.start % job.align;
        let (mut grain, last) = (job.align, job.range.end - 1 - base);
        while last / grain >= u64::from(u32::MAX) {
            grain = grain.saturating_mul(2);
        }
        let count = (last / grain + 1) as u32;
        let least = job.min_chunk.div_ceil(grain).clamp(1, count.into()) as u32;
        Some(Self { base, grain, count, least, is_plain: false })
    }

    /// How many may work on the job so that each has the minimum to do.
    #[inline]
    pub(super) fn most_workers<W>(&self, job: &Job<'_, W>) -> u32 {
        if job.min_chunk == 1 {
            return self.count;
        }
        let whole_chunks = (job.range.end - job.range.start) / job.min_chunk;
        (self.count / self.least).min(whole_chunks.try_into().unwrap_or(u32::MAX)).max(1)
    }

    /// The caller's first chunk: everything, where there is nobody to share it with and nothing to listen to.
    #[inline]
    pub(super) fn first(&self, is_shared: bool) -> Grains {
        0..if is_shared && self.count - self.least >= self.least { self.least } else { self.count }
    }

    /// The part of the job's range, which is `whole`, that `grains` are.
    #[inline]
    pub(super) fn range(&self, whole: &Range<u64>, grains: &Grains) -> Range<u64> {
        let edge = |grain: u32| self.base.saturating_add(u64::from(grain).saturating_mul(self.grain));
        edge(grains.start).max(whole.start)..edge(grains.end).min(whole.end)
    }
}

/// A visit or a chunk should not take longer: others may want the CPU.
pub(super) const BOUND_NS: u64 = 1_000_000;

/// How many grains take a quarter of the bound, after `pace` were thought to and took `took_ns`: more where
/// that is well below it, half where it is above the bound. What took less than a microsecond may have been
/// quick by chance, and counts for 128 times as much at most.
pub(super) fn next_pace(pace: u32, took_ns: u64, least: u32) -> u32 {
    if took_ns > BOUND_NS {
        return (pace / 2).max(least);
    }
    let room = BOUND_NS / 4 / took_ns.max(1);
    let room = if took_ns < 1000 { room.min(128) } else { room.max(1) } as u32;
    pace.saturating_mul(room)
}

/// The pace takes so much longer than what is worth taking by itself, which is half a microsecond: taking
/// costs a fifth of that.
const PACE_TO_LEAST: u32 = 512;

/// How many grains to take of `have` that `workers` may share, for one of whose part `due` have not come to
/// it yet. What each would get of what is left, so that what one is behind is shared by all (guided
/// self-scheduling, Polychronopoulos and Kuck 1987); and three quarters of what is due at once, as nobody
/// else would take that, were all equally fast. No more than `pace`, and no less than is worth taking.
#[inline]
pub(super) fn chunk(have: u32, due: u32, pace: u32, least: u32, workers: u32) -> u32 {
    let pace = pace.max(least);
    let part = (have / workers).max(due - due / 4).min(have);
    part.clamp((pace / PACE_TO_LEAST).max(least), pace)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn cut(range: Range<u64>, align: u64, min_chunk: u64) -> Cut {
        Cut::new(&job(range, align, min_chunk)).unwrap()
    }

    fn job(range: Range<u64>, align: u64, min_chunk: u64) -> Job<'static, ()> {
        Job::new(range, ()).align(align).min_chunk(min_chunk)
    }

    #[test]
    fn grains_cover_a_range_that_begins_and_ends_anywhere() {
        for (start, end, align) in
            (0..20).flat_map(|s| (s + 1..40).flat_map(move |e| (1..9).map(move |a| (s, e, a))))
        {
            let cut = cut(start..end, align, 1);
            let mut at = start;
            for grain in 0..cut.count {
                let piece = cut.range(&(start..end), &(grain..grain + 1));
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
    fn there_is_the_minimum_for_each_worker() {
        for (count, least) in (1..60).flat_map(|c| (1..=c).map(move |l| (c, l))) {
            let workers = u64::from(cut(0..count, 1, least).most_workers(&job(0..count, 1, least)));
            assert!(workers * least <= count || workers == 1);
            assert!((workers + 1) * least > count);
        }
        let unaligned = job(3..35, 8, 9);
        assert_eq!(Cut::new(&unaligned).unwrap().most_workers(&unaligned), 2);
    }

    #[test]
    fn the_widest_range_and_the_largest_numbers_are_cut_without_overflow() {
        let most = u64::MAX;
        let whole = cut(0..most, 1, 1);
        assert_eq!(whole.range(&(0..most), &(0..whole.count)), 0..most);
        let end = cut(most - 10..most, 64, most);
        assert_eq!((end.count, end.least), (1, 1));
        assert_eq!(end.range(&(most - 10..most), &(0..1)), most - 10..most);
        assert_eq!(cut(5..6, most, 3).range(&(5..6), &(0..1)), 5..6);
    }

    #[test]
    fn chunks_grow_while_they_are_quick_and_shrink_towards_the_end() {
        assert_eq!(
            [0, 2000, BOUND_NS / 2, BOUND_NS + 1].map(|ns| next_pace(40, ns, 10)),
            [5120, 5000, 40, 20]
        );
        assert_eq!((next_pace(12, BOUND_NS * 2, 10), next_pace(12, BOUND_NS / 12, 10)), (10, 36));
        assert_eq!([1000, 100, 30, 3].map(|have| chunk(have, 0, 200, 10, 2)), [200, 50, 15, 10]);
        assert_eq!([9000, 5].map(|have| chunk(have, 0, 5120, 1, 2)), [4500, 10]);
        assert_eq!(chunk(u32::MAX, u32::MAX, u32::MAX, 1, 1), u32::MAX);
        assert_eq!([100, 60, 10, 1].map(|due| chunk(100, due, 5120, 1, 4)), [75, 45, 25, 25]);
        assert_eq!((chunk(30, 100, 5120, 1, 2), chunk(1000, 1000, 200, 1, 2)), (30, 200));
    }
}
