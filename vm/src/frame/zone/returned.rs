//! Single frames that go back to their region without its lock.
//!
//! A list of runs, pushed one by one and taken all at once: so no run is in the way of another, and a push
//! does not care what a frame did meanwhile. A run is frames in a row, each *cached* by its record; the first
//! one's record links the list and names the last. So a run costs one record, however long it is.

use super::buddy::record;
use crate::frame::record::Links;
use crate::frame::{FrameTable, Init};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{Pfn, PfnRange};
use core::fmt;

/// Runs of frames that were given back.
pub(super) struct Returned<C: Cpu> {
    /// A [`Top`]; 0 for none. A push releases the records that it wrote, and what empties the list acquires
    /// them. Pushes are read-modify-writes, so that the records of all runs come with the last push.
    top: AtomicU64<C>,
}

/// The first frame of the run pushed last, plus one (bits 0..41), how many runs there are (41..48), and how
/// many frames, or [`MOST_COUNTED`] (48..64).
#[derive(Clone, Copy)]
struct Top(u64);

const RUNS_SHIFT: u32 = 41;
const FRAMES_SHIFT: u32 = 48;
const MOST_COUNTED: u64 = u16::MAX as u64;

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// There are not many frames yet, or there were before.
    Added,
    /// There are [`MANY`](Returned::MANY) frames now, and there were fewer.
    Many,
    /// There are so many runs that the caller should collect them: this one was not pushed.
    TooMany,
}

impl Top {
    fn first(self) -> Option<Pfn> {
        (self.0 & ((1 << RUNS_SHIFT) - 1)).checked_sub(1).map(Pfn)
    }

    fn runs(self) -> u64 {
        self.0 >> RUNS_SHIFT & 0x7f
    }

    fn frames(self) -> u64 {
        self.0 >> FRAMES_SHIFT
    }

    /// With a run before the others.
    fn with(self, run: PfnRange) -> Self {
        let frames = (self.frames() + run.len()).min(MOST_COUNTED);
        Self(frames << FRAMES_SHIFT | (self.runs() + 1) << RUNS_SHIFT | (run.start.0 + 1))
    }
}

impl<C: Cpu> Returned<C> {
    /// Runs that wait at most: what a CPU has to collect at once.
    const MOST: u64 = 64;
    /// From so many frames on they are worth a search.
    const MANY: u64 = 128;

    /// No runs.
    pub const fn new() -> Self {
        Self { top: AtomicU64::new(0) }
    }

    /// Whether there was none a moment ago.
    pub fn is_empty_racy(&self) -> bool {
        self.top.load(Relaxed) == 0
    }

    /// Whether there are so many frames that they are worth a search.
    #[cfg(all(test, loom))]
    pub fn has_many_racy(&self) -> bool {
        Top(self.top.load(Relaxed)).frames() >= Self::MANY
    }

    /// Pushes a run of frames that are the caller's alone.
    pub fn push(&self, table: &FrameTable<'_, C>, run: PfnRange) -> Pushed {
        let head = record(table, run.start);
        head.set_prev(Some(Pfn(run.end.0 - 1)));
        // Not loaded before: the exchange brings the line anyway, and a refusal says what it holds.
        let mut old = Top(0);
        loop {
            if old.runs() >= Self::MOST {
                return Pushed::TooMany;
            }
            head.set_next(old.first());
            let new = old.with(run);
            let order = if mutant!("returned.pushed-relaxed") { Relaxed } else { AcqRel };
            match self.top.compare_exchange(old.0, new.0, order, Relaxed) {
                Ok(_) if old.frames() < Self::MANY && new.frames() >= Self::MANY => return Pushed::Many,
                Ok(_) => return Pushed::Added,
                Err(now) => old = Top(now),
            }
        }
    }

    /// Empties the list, and calls `each` for every run, which are the caller's then.
    pub fn take_all(&self, table: &FrameTable<'_, C>, mut each: impl FnMut(PfnRange, Init)) {
        let top = if mutant!("returned.taken-by-load-and-store") {
            let top = self.top.load(Acquire);
            self.top.store(0, Release);
            top
        } else {
            self.top.swap(0, AcqRel)
        };
        let mut at = Top(top).first();
        while let Some(first) = at {
            let head = record(table, first);
            let (Links { prev: last, next }, init) = (head.links(), head.state().init());
            at = next;
            each(PfnRange::new(first, last.unwrap_or(first).add(1)), init);
        }
    }
}

impl<C: Cpu> fmt::Debug for Returned<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs returned", Top(self.top.load(Relaxed)).runs())
    }
}
