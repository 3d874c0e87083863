//! One order from several sources.
//!
//! There is a ring for each CPU and the tracer. Each source's own order is the truth about that source (the
//! kernel writes a ring in the order in which things happened on that CPU), so within a source a time that
//! goes back slightly is raised to the one before. Between sources the clock decides, CLOCK_MONOTONIC being
//! one clock for all CPUs; equal times are taken in the order of the sources, rings first, by rising CPU. A
//! thread that moves between CPUs takes far longer to do so than the clock's grain.
//!
//! An event of the tracer about a stopped task carries a time read while the task was stopped: later than all
//! the task did before the stop and earlier than all it does after.
//!
//! No record is passed on while an earlier one can still arrive: a record is held for
//! [`LAG_NS`] after its ring was read. One that comes later than that is an error, never a wrong order.

use super::raw::Raw;
use std::collections::VecDeque;

/// How long records are held, nanoseconds.
pub const LAG_NS: u64 = 1_000_000_000;

/// Merges several sources into one.
#[derive(Debug)]
pub struct Merge {
    sources: Vec<Source>,
    handed_on_ns: u64,
}

#[derive(Debug, Default)]
struct Source {
    waiting: VecDeque<Raw>,
    last_ns: u64,
}

impl Merge {
    /// A merge of `sources` sources.
    pub fn new(sources: usize) -> Merge {
        Merge { sources: (0..sources).map(|_| Source::default()).collect(), handed_on_ns: 0 }
    }

    /// Takes the next record of `source`. The error is its lateness in nanoseconds.
    pub fn push(&mut self, source: usize, mut raw: Raw) -> Result<(), u64> {
        let from = &mut self.sources[source];
        raw.time_ns = raw.time_ns.max(from.last_ns);
        if raw.time_ns < self.handed_on_ns {
            return Err(self.handed_on_ns - raw.time_ns);
        }
        from.last_ns = raw.time_ns;
        from.waiting.push_back(raw);
        Ok(())
    }

    /// The earliest of all records before `horizon_ns`.
    pub fn pop_before(&mut self, horizon_ns: u64) -> Option<Raw> {
        let first =
            self.sources.iter_mut().filter(|s| !s.waiting.is_empty()).min_by_key(|s| s.waiting[0].time_ns)?;
        if first.waiting[0].time_ns >= horizon_ns {
            return None;
        }
        let raw = first.waiting.pop_front()?;
        self.handed_on_ns = raw.time_ns;
        Some(raw)
    }

    /// How many records wait.
    pub fn waiting(&self) -> usize {
        self.sources.iter().map(|s| s.waiting.len()).sum()
    }
}

#[cfg(test)]
#[path = "tests/merge.rs"]
mod tests;
