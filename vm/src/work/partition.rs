//! How a job is divided, as pure arithmetic. A *grain* is the smallest piece that the job's alignment allows,
//! or a multiple of it where there would be too many to count in 32 bits. A *chunk* is some grains in a row,
//! for one call of the job's function.

use super::job::Job;
use core::ops::Range;

/// A range of grains, by number.
pub(super) type Grains = Range<u32>;

/// A job's range in grains; grain `n` begins at `base + n * grain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    base: u64,
    grain: u64,
    /// Number of grains.
    pub(super) count: u32,
    /// The minimum chunk in grains.
    pub(super) min_chunk: u32,
}

impl Partition {
    /// `None` if the range is empty.
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
        let min_chunk = job.min_chunk.div_ceil(grain).clamp(1, count.into()) as u32;
        Some(Self { base, grain, count, min_chunk })
    }

    /// Number of workers that can each have a minimum chunk.
    pub(super) fn max_workers<W>(&self, job: &Job<'_, W>) -> u32 {
        let whole_chunks = (job.range.end - job.range.start) / job.min_chunk;
        (self.count / self.min_chunk).min(whole_chunks.try_into().unwrap_or(u32::MAX)).max(1)
    }

    /// The units of `grains`; `whole` is the job's range.
    pub(super) fn range(&self, whole: &Range<u64>, grains: &Grains) -> Range<u64> {
        let edge = |grain: u32| self.base.saturating_add(u64::from(grain).saturating_mul(self.grain));
        edge(grains.start).max(whole.start)..edge(grains.end).min(whole.end)
    }
}

/// Time after which a visit ends with its chunk, and above which a chunk is too long.
pub(super) const MAX_NS: u64 = 1_000_000;

/// The next estimate of how many grains take a quarter of [`MAX_NS`], after `pace` grains took `took_ns`. A
/// time below a microsecond may be chance, and raises the estimate to 128 times at most.
pub(super) fn next_pace(pace: u32, took_ns: u64, min_chunk: u32) -> u32 {
    if took_ns > MAX_NS {
        return (pace / 2).max(min_chunk);
    }
    let room = MAX_NS / 4 / took_ns.max(1);
    let room = if took_ns < 1000 { room.min(128) } else { room.max(1) } as u32;
    pace.saturating_mul(room)
}

/// Number of grains that a worker takes of the `have` left, which `workers` share: an equal part, or three
/// quarters of `due`, the rest of its equal part of the job, if that is more; `pace` at most.
pub(super) fn chunk_size(have: u32, due: u32, pace: u32, min_chunk: u32, workers: u32) -> u32 {
    let pace = pace.max(min_chunk);
    let part = (have / workers).max(due - due / 4).min(have);
    // The shortest chunk that is worth taking has half a microsecond, 1/512 of the pace.
    part.clamp((pace / 512).max(min_chunk), pace)
}

/// Calls `f` for each gap between the ranges of `undone`, in order, within `whole`. The ranges are few, so
/// they are searched once for each gap, and nothing is allocated.
pub(super) fn each_gap<I: Iterator<Item = Range<u64>>>(
    whole: &Range<u64>,
    undone: impl Fn() -> I,
    f: &(dyn Fn(Range<u64>) + Sync),
) {
    let mut at = whole.start;
    while at < whole.end {
        let next =
            undone().filter(|range| !range.is_empty() && range.end > at).min_by_key(|range| range.start);
        let gap_end = next.as_ref().map_or(whole.end, |range| range.start.min(whole.end));
        if gap_end > at {
            f(at..gap_end);
        }
        at = next.map_or(whole.end, |range| range.end);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/partition.rs"]
mod tests;
