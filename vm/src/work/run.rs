//! A job under way: the state that its workers share, on the caller's stack.

use super::broken_off::BrokenOff;
use super::deque::{NodeDeques, Side};
use super::dispatch::{Dispatch, Visit, VisitEnd, Work};
use super::job::{AnyWork, Chunk, Failed, Job};
use super::partition::{self, MAX_NS, Partition};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use core::ops::Range;

// Why no other chunk begins.
const ERROR: u32 = 1;
const PANIC: u32 = 2;
const CANCELLED: u32 = 3;

/// Polls of a caller that stands back between two looks at the deques, whose lock helpers take.
const POLLS_PER_LOOK: u32 = 16;

/// The state of a job while it runs; undone when dropped, if it is stopped.
pub(super) struct JobRun<'a, C: Cpu> {
    job: &'a Job<'a, AnyWork<'a>>,
    partition: Partition,
    /// The grains that have not begun.
    deques: NodeDeques<C>,
    /// Number of workers, the caller included.
    workers: u32,
    /// No helper can join, and nothing can cancel the job.
    is_one_chunk: bool,
    /// Number of grains that take a quarter of [`MAX_NS`], as measured. Relaxed: any value is right.
    pace: AtomicU32<C>,
    /// Why no other chunk begins; 0 while chunks begin. Relaxed: results are ordered by the end of visits.
    stopped: AtomicU32<C>,
    /// What broken-off chunks did not do; for a job that is undone.
    broken_off: BrokenOff<'a, C>,
}

/// Stops a job, if it was not stopped before: no other chunk begins.
fn stop<C: Cpu>(stopped: &AtomicU32<C>, why: u32) {
    let _ = stopped.compare_exchange(0, why, Relaxed, Relaxed);
}

impl<'a, C: Cpu> JobRun<'a, C> {
    /// A job to be run by `workers`: this CPU and helpers.
    pub(super) fn new(
        job: &'a Job<'a, AnyWork<'a>>,
        partition: Partition,
        workers: u32,
        on: &'a Dispatch<'a, C>,
    ) -> Self {
        let is_one_chunk = workers == 1 && job.stop_if.is_none();
        let pace = if is_one_chunk { partition.count } else { partition.min_chunk };
        Self {
            job,
            deques: NodeDeques::new(0..partition.count, on.node_of(C::id()), on.nr_nodes()),
            workers,
            is_one_chunk,
            pace: AtomicU32::new(pace),
            stopped: AtomicU32::new(0),
            broken_off: BrokenOff::new(on),
            partition,
        }
    }

    /// Touches the word that does not start as zero before helpers do: loom finds atomics by their addresses.
    #[cfg(loom)]
    pub(super) fn touch_words(&self) {
        assert!(self.pace.load(Relaxed) > 0);
    }

    /// The caller's part: chunks until all grains have begun. Helpers come first, as long as they take some
    /// within `patience` polls.
    pub(super) fn work_as_caller(&self, patience: u32) {
        self.stand_back(patience);
        self.work(0, (0, Side::Front), |_| {
            C::relax();
            false
        });
    }

    /// Waits as long as helpers take grains: until none are left, or none was taken in `patience` polls.
    fn stand_back(&self, patience: u32) {
        let (mut left, mut polls) = (u32::MAX, 0);
        while polls < patience && !self.is_stopped() {
            let now_left = self.deques.nr_left();
            if now_left == 0 {
                return;
            }
            polls = if now_left < left { 0 } else { polls.saturating_add(POLLS_PER_LOOK) };
            left = now_left;
            let mut rest = POLLS_PER_LOOK;
            while rest > 0 {
                rest -= C::spin(rest);
            }
        }
    }

    /// Does chunks until all grains have begun, or `pause`, given the time after a chunk, returns true.
    fn work(&self, worker: u32, (deque, side): (usize, Side), pause: impl Fn(u64) -> bool) -> VisitEnd {
        let (mut taken, mut began_ns) = (0u32, C::now_ns());
        while !self.is_stopped() {
            let wanted = |have| {
                let due = (self.partition.count / self.workers).saturating_sub(taken);
                let pace = self.pace.load(Relaxed);
                partition::chunk_size(have, due, pace, self.partition.min_chunk, self.workers)
            };
            let Some(grains) = self.deques.next(deque, side, wanted, self.partition.min_chunk) else { break };
            taken = taken.saturating_add(grains.len() as u32);
            self.call(worker, self.partition.range(&self.job.range, &grains));
            if self.is_one_chunk {
                continue;
            }
            let now_ns = C::now_ns();
            self.learn(grains.len() as u32, now_ns.saturating_sub(began_ns));
            began_ns = now_ns;
            if pause(now_ns) {
                return VisitEnd::Paused;
            }
        }
        VisitEnd::Exhausted
    }

    /// Adapts the pace to a chunk of `done` grains that took `took_ns`.
    fn learn(&self, done: u32, took_ns: u64) {
        let pace = self.pace.load(Relaxed);
        // A chunk below the pace says nothing about a longer one, unless it took too long.
        if done >= pace || took_ns > MAX_NS {
            let next = partition::next_pace(done, took_ns, self.partition.min_chunk);
            if next != pace {
                self.pace.store(next, Relaxed);
            }
        }
    }

    /// Calls the job's function.
    fn call(&self, worker: u32, range: Range<u64>) {
        let is_stopped = || self.is_stopped();
        let Self { stopped, broken_off, .. } = self;
        let broken_off = self.job.undo.is_some().then_some(broken_off);
        let chunk = Chunk::new(range, worker, &is_stopped);
        let mut guard = BreakOff { stopped, broken_off, chunk, why: PANIC };
        if (self.job.work)(&guard.chunk).is_err() {
            guard.why = ERROR;
        } else {
            core::mem::forget(guard);
        }
    }

    fn is_stopped(&self) -> bool {
        if self.stopped.load(Relaxed) == 0 && self.job.stop_if.is_some_and(|stop_if| stop_if()) {
            stop(&self.stopped, CANCELLED);
        }
        self.stopped.load(Relaxed) != 0
    }

    /// The result of the job. All visits have ended.
    pub(super) fn result(&mut self) -> Result<(), Failed<()>> {
        match *self.stopped.get_mut() {
            0 => Ok(()),
            ERROR => Err(Failed::Error(())),
            CANCELLED => Err(Failed::Cancelled),
            _ => Err(Failed::Panicked),
        }
    }
}

/// Undoes the work, if the job is stopped: after the last visit, also where the caller's own chunk unwinds.
impl<C: Cpu> Drop for JobRun<'_, C> {
    fn drop(&mut self) {
        if *self.stopped.get_mut() != 0
            && let Some(undo) = self.job.undo
            && !mutant!("job.undo-skipped")
        {
            let whole = &self.job.range;
            let not_begun = self.deques.rests().map(|rest| self.partition.range(whole, &rest));
            // Complete: a worker that breaks off a chunk notes it before it leaves.
            let not_done = || not_begun.iter().cloned().chain(self.broken_off.ranges());
            partition::each_gap(whole, not_done, undo);
        }
    }
}

impl<C: Cpu> Work<C> for JobRun<'_, C> {
    fn visit(&self, visit: &Visit<'_, C>) -> VisitEnd {
        let (number, until_ns) = (visit.cpu().0 + 1, visit.began_ns.saturating_add(MAX_NS));
        let deque = self.deques.of_node(visit.node());
        self.work(number, (deque, Side::Back), |now_ns| now_ns > until_ns || visit.must_leave())
    }
}

/// A chunk under way; dropped where it fails or unwinds: stops the job and notes the part that is not done.
struct BreakOff<'r, C: Cpu> {
    stopped: &'r AtomicU32<C>,
    broken_off: Option<&'r BrokenOff<'r, C>>,
    chunk: Chunk<'r>,
    why: u32,
}

impl<C: Cpu> Drop for BreakOff<'_, C> {
    #[cold]
    fn drop(&mut self) {
        stop(self.stopped, self.why);
        if let Some(broken_off) = self.broken_off
            && !mutant!("job.break-off-not-noted")
        {
            broken_off.note(self.chunk.worker(), &(self.chunk.done.get()..self.chunk.end));
        }
    }
}
