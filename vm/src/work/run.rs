//! A job under way: what its workers share, on the caller's stack.

use super::deque::{NodeDeques, Side};
use super::dispatch::{Dispatch, Progress, Visitor, Work};
use super::job::{Chunk, Failed, Job};
use super::partition::{self, Grains, MAX_NS, Partition};
use super::undo;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::{BoundedList, SpinLock, lockdep};
use core::ops::Range;

// Why no other chunk begins.
const ERROR: u32 = 1;
const PANIC: u32 = 2;
const CANCELLED: u32 = 3;

/// Most helpers of one job. Each worker may break off one chunk, and all of these are noted.
pub(super) const MAX_HELPERS: u32 = 63;

/// The state of a job while it runs.
pub(super) struct JobRun<'a, W, E, C: Cpu> {
    job: &'a Job<'a, W>,
    partition: Partition,
    /// What has not begun.
    deques: NodeDeques<C>,
    /// How many may work on it, the caller included.
    workers: u32,
    /// Grains of a chunk that takes a quarter of [`MAX_NS`], as the workers have learned. Relaxed: any value
    /// is right.
    pace: AtomicU32<C>,
    /// 0 while chunks are begun. Relaxed: it only stops; results are ordered by the end of visits.
    stopped: AtomicU32<C>,
    error: SpinLock<Option<E>, C, { lockdep::JOB.0 }>,
    /// What chunks that were broken off did not do: from, to. No chunk begins once one has failed, so those
    /// under way then are all.
    broken_off: BoundedList<(u64, u64), C, { MAX_HELPERS as usize + 1 }>,
}

/// The number of the caller, as [`Chunk::worker`] says it.
const CALLER: u32 = 0;

impl<'a, W, E, C: Cpu> JobRun<'a, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    /// A job to be run by this CPU and up to `max_helpers` helpers.
    pub(super) fn new(
        job: &'a Job<'a, W>,
        partition: Partition,
        max_helpers: u32,
        dispatch: &Dispatch<C>,
    ) -> Self {
        let home = dispatch.node_of(C::id());
        Self {
            job,
            deques: NodeDeques::new(&(0..partition.count), home, dispatch.nr_nodes()),
            workers: max_helpers + 1,
            pace: AtomicU32::new(partition.min_chunk),
            stopped: AtomicU32::new(0),
            error: SpinLock::new(None),
            broken_off: BoundedList::new(),
            partition,
        }
    }

    /// Touches, before helpers do, the words that do not start as zero: loom finds its atomics by their
    /// addresses.
    #[cfg(loom)]
    pub(super) fn touch_words(&self) {
        assert!(self.deques.rests().count() > 0 && self.pace.load(Relaxed) > 0);
    }

    /// The caller's part: chunks until it finds nothing that has not begun. One chunk, where no helper can
    /// come and nothing can cancel the job.
    pub(super) fn work_as_caller(&self) {
        if self.workers == 1 && self.job.stop_if.is_none() {
            self.pace.store(self.partition.count, Relaxed);
        }
        self.work(CALLER, (0, Side::Front), |_| {
            C::relax();
            false
        });
    }

    /// Does chunks, until none is left that has not begun, or `pause` says so at the end of one.
    fn work(&self, worker: u32, (deque, side): (usize, Side), pause: impl Fn(u64) -> bool) -> Progress {
        let (mut taken, mut began_ns) = (0u32, C::now_ns());
        while !self.is_stopped() {
            let wanted = |have| self.chunk_size(have, taken);
            let Some(grains) = self.deques.next(deque, side, wanted, self.partition.min_chunk) else { break };
            taken = taken.saturating_add(grains.len() as u32);
            self.call(worker, self.range(&grains));
            if self.workers == 1 && self.job.stop_if.is_none() {
                continue;
            }
            let now_ns = C::now_ns();
            self.learn(grains.len() as u32, now_ns.saturating_sub(began_ns));
            began_ns = now_ns;
            if pause(now_ns) {
                return Progress::Paused;
            }
        }
        Progress::Exhausted
    }

    /// Number of grains to take of `have`, by a worker that has had `taken`.
    fn chunk_size(&self, have: u32, taken: u32) -> u32 {
        let due = (self.partition.count / self.workers).saturating_sub(taken);
        let pace = self.pace.load(Relaxed);
        partition::chunk_size(have, due, pace, self.partition.min_chunk, self.workers)
    }

    /// Learns from a chunk of `done` grains how long chunks should be.
    fn learn(&self, done: u32, took_ns: u64) {
        let pace = self.pace.load(Relaxed);
        // A chunk that was cut short says little of how many grains would take long.
        if done >= pace || took_ns > MAX_NS {
            let next = partition::next_pace(done, took_ns, self.partition.min_chunk);
            if next != pace {
                self.pace.store(next, Relaxed);
            }
        }
    }

    fn range(&self, grains: &Grains) -> Range<u64> {
        self.partition.range(&self.job.range, grains)
    }

    /// Calls the job's function; what it leaves undone, if it fails or unwinds, is noted.
    fn call(&self, worker: u32, range: Range<u64>) {
        let stopped = || self.is_stopped();
        let mut guard = BreakOff { run: self, chunk: Chunk::new(range, worker, &stopped), why: PANIC };
        if let Err(error) = (self.job.work)(&guard.chunk) {
            if self.stop(ERROR) {
                *self.error.lock() = Some(error);
            }
            guard.why = ERROR;
        } else {
            core::mem::forget(guard);
        }
    }

    /// Has no other chunk begin. True for the first that stops the job.
    fn stop(&self, why: u32) -> bool {
        self.stopped.compare_exchange(0, why, Relaxed, Relaxed).is_ok()
    }

    fn is_stopped(&self) -> bool {
        if self.stopped.load(Relaxed) == 0 && self.job.stop_if.is_some_and(|stop_if| stop_if()) {
            self.stop(CANCELLED);
        }
        self.stopped.load(Relaxed) != 0
    }

    /// Undoes what was done, if the job is stopped. No helper works any more.
    pub(super) fn undo_if_stopped(&mut self) {
        if *self.stopped.get_mut() != 0
            && let Some(undo) = self.job.undo
            && !mutant!("job.undo-skipped")
        {
            // A worker that broke a chunk off has noted it before it left.
            let broken_off = self.broken_off.values().unwrap_or_default();
            let not_begun = || self.deques.rests().map(|rest| self.range(&rest));
            let not_done = || not_begun().chain(broken_off.iter().map(|&(from, to)| from..to));
            undo::each_gap(&self.job.range, not_done, undo);
        }
    }

    /// How the job ended. No helper works any more.
    pub(super) fn result(&mut self) -> Result<(), Failed<E>> {
        match (*self.stopped.get_mut(), self.error.get_mut().take()) {
            (0, _) => Ok(()),
            (ERROR, Some(error)) => Err(Failed::Error(error)),
            (CANCELLED, _) => Err(Failed::Cancelled),
            _ => Err(Failed::Panicked),
        }
    }
}

impl<W, E, C: Cpu> Work<C> for JobRun<'_, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    fn visit(&self, visitor: &Visitor<'_, C>) -> Progress {
        let (number, until_ns) = (visitor.cpu.0 + 1, visitor.began_ns.saturating_add(MAX_NS));
        let deque = self.deques.of_node(visitor.node);
        self.work(number, (deque, Side::Back), |now_ns| now_ns > until_ns || visitor.must_leave())
    }
}

/// A chunk under way; if it fails or unwinds, this stops the job and notes what is not done.
struct BreakOff<'r, 'a, W, E, C: Cpu>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    run: &'r JobRun<'a, W, E, C>,
    chunk: Chunk<'r>,
    why: u32,
}

impl<W, E, C: Cpu> Drop for BreakOff<'_, '_, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    #[cold]
    fn drop(&mut self) {
        self.run.stop(self.why);
        if mutant!("job.break-off-not-noted") {
            return;
        }
        let is_noted = self.run.broken_off.push((self.chunk.done(), self.chunk.end));
        debug_assert!(is_noted, "more chunks broken off than workers");
    }
}
