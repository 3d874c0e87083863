//! How much memory processes had at most.
//!
//! No fault counts its page (`Inspect::resident`), so memory is counted from the tables, at moments when
//! it may be at its most:
//!
//! | when | because |
//! |---|---|
//! | a process's last thread ends | what it has then, nothing else would count |
//! | before MADV_DONTNEED and MADV_FREE of 2 MiB and more | that much may go |
//! | at ticks | what munmap and brk give back was counted at the last tick before |
//! | a program asks | the answer is exact |
//!
//! So what a program touches and unmaps between two ticks may be missed (Linux's `VmHWM` is inexact too). A
//! call that unmaps pays nothing. Counting takes some instructions for each entry of each table, so ticks
//! count for at most a sixteenth of the time.

use super::process::Process;
use crate::arch::{Core, percpu};
use core::sync::atomic::{AtomicU64, Ordering::*};
use interleaf::machine::Cpu;
use interleaf::table::Resident;

/// Times as long as a count took, ticks do not count again.
const SPARED: u64 = 15;

/// Resident memory of a process, in pages. Relaxed: numbers that stand alone.
pub struct ResidentPeak {
    /// The most that was counted.
    own: AtomicU64,
    /// The most of a child that was waited for.
    children: AtomicU64,
    /// From when on a tick counts; the largest number while one does.
    next_ns: AtomicU64,
}

impl ResidentPeak {
    /// Nothing counted.
    pub const fn new() -> Self {
        Self { own: AtomicU64::new(0), children: AtomicU64::new(0), next_ns: AtomicU64::new(0) }
    }

    /// Nothing counted: another process has the place.
    pub(super) fn reset(&self) {
        [&self.own, &self.children, &self.next_ns].into_iter().for_each(|word| word.store(0, Relaxed));
    }

    /// The most that the process, or a child that was waited for, had.
    pub(super) fn peak_of_all(&self) -> u64 {
        self.own.load(Relaxed).max(self.children.load(Relaxed))
    }

    /// A child was waited for that had so many pages at most.
    pub(super) fn note_child(&self, peak_pages: u64) {
        self.children.fetch_max(peak_pages, Relaxed);
    }
}

impl Process {
    /// Counts the resident memory of the running thread, which is one of the process. Not with preemption
    /// off.
    pub fn count_resident(&self) -> Resident {
        let resident = percpu::thread()
            .with_space(|space| space.expect("a program's thread has a space").inspect().resident());
        self.memory().own.fetch_max(resident.pages(), Relaxed);
        resident
    }

    /// The same, at a tick of the running thread, where the last count was long enough ago and none is under
    /// way.
    pub(super) fn count_at_tick(&self) {
        let (next, now) = (&self.memory().next_ns, Core::now_ns());
        let due = next.load(Relaxed);
        if now < due || next.compare_exchange(due, u64::MAX, Relaxed, Relaxed).is_err() {
            return;
        }
        self.count_resident();
        let after = Core::now_ns();
        next.store(after + SPARED * (after - now), Relaxed);
    }

    /// The most pages that were counted.
    pub fn peak_pages(&self) -> u64 {
        self.memory().own.load(Relaxed)
    }

    /// The most that it, or a child that was waited for, had.
    pub fn peak_of_all(&self) -> u64 {
        self.memory().peak_of_all()
    }

    /// The most pages of a child that was waited for.
    pub fn children_peak_pages(&self) -> u64 {
        self.memory().children.load(Relaxed)
    }
}
