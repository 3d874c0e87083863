//! A job under way: what all who work on it share, on the caller's stack.

use super::plan::{self, BOUND_NS, Cut};
use super::share::{self, Grains, Share};
use super::undo;
use super::value::{Chunk, Failed, Job};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::board::{Board, Then, Visit};
use crate::sync::{SpinLock, ladder};
use crate::units::{CpuId, CpuMask, NodeId};
use core::ops::Range;

/// The posts of helpers, each with its share of the job that it works on.
pub(super) type Posts<C> = Board<Share<C>, C>;

// Why nobody begins another chunk.
const ERROR: u32 = 1;
const PANIC: u32 = 2;
const CANCELLED: u32 = 3;

pub(super) struct Running<'a, W, E, C: Cpu> {
    job: &'a Job<'a, W>,
    cut: &'a Cut,
    posts: &'a Posts<C>,
    /// The CPUs whose helpers were claimed: their shares are this job's.
    helpers: CpuMask,
    /// The caller's share.
    own: Share<C>,
    caller: CpuId,
    /// 0 while chunks are begun. Relaxed: it only stops; results are ordered by the end of visits.
    stopped: AtomicU32<C>,
    /// Grains of the next chunk, as all have learned. Relaxed: any value is right.
    pace: AtomicU32<C>,
    most_chunk: u32,
    error: SpinLock<Option<E>, C, { ladder::JOB.0 }>,
}

/// Who works: a helper, by its CPU, or the caller.
type Worker = Option<CpuId>;

impl<'a, W, E, C: Cpu> Running<'a, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    /// A job shared out among the caller and `helpers`.
    pub(super) fn new(job: &'a Job<'a, W>, cut: &'a Cut, posts: &'a Posts<C>, helpers: CpuMask) -> Self {
        let workers = helpers.count() + 1;
        let running = Self {
            job,
            cut,
            posts,
            helpers,
            own: Share::new(),
            caller: C::id(),
            stopped: AtomicU32::new(0),
            pace: AtomicU32::new(cut.least),
            most_chunk: cut.most_chunk(workers),
            error: SpinLock::new(None),
        };
        (0..).zip(running.shares()).for_each(|(number, share)| share.begin(cut.share(number, workers)));
        running
    }

    /// The caller's part: until nobody has anything that is not begun.
    pub(super) fn work_as_caller(&self) {
        while self.one_chunk(None).is_some() {
            C::relax();
        }
    }

    /// Takes back what was done, where the job is stopped. Nobody works any more.
    pub(super) fn undo_if_stopped(&self) {
        if let Some(undo) = self.job.undo
            && self.stopped.load(Relaxed) != 0
        {
            let undone = || self.shares().flat_map(|share| [self.cut.range(&share.rest()), share.lost()]);
            undo::rest_of(&self.job.range, undone, undo);
        }
    }

    /// How it ended. Nobody works any more.
    pub(super) fn result(self) -> Result<(), Failed<E>> {
        let Self { stopped, mut error, .. } = self;
        match (stopped.load(Relaxed), error.get_mut().take()) {
            (0, _) => Ok(()),
            (ERROR, Some(error)) => Err(Failed::Error(error)),
            (CANCELLED, _) => Err(Failed::Cancelled),
            _ => Err(Failed::Panicked),
        }
    }

    /// The caller's share, then the helpers'.
    fn shares(&self) -> impl Iterator<Item = &Share<C>> {
        core::iter::once(&self.own).chain(self.helpers.iter().map(|cpu| self.posts.at(cpu)))
    }

    fn share_of(&self, worker: Worker) -> &Share<C> {
        worker.map_or(&self.own, |cpu| self.posts.at(cpu))
    }

    /// Does one chunk of the worker's share, or of what it can steal, and says what time it is then. `None` where there is
    /// nothing more, or the job is stopped.
    fn one_chunk(&self, worker: Worker) -> Option<u64> {
        if self.is_stopped() {
            return None;
        }
        let pace = self.pace.load(Relaxed);
        let share = self.share_of(worker);
        let grains = share.take(pace, self.cut.least).or_else(|| self.steal(worker, pace))?;
        let began_ns = C::now_ns();
        self.call(worker, self.cut.range(&grains));
        let now_ns = C::now_ns();
        let took_ns = now_ns.saturating_sub(began_ns);
        let next = plan::next_pace(pace, took_ns, self.cut.least, self.most_chunk);
        if next != pace {
            self.pace.store(next, Relaxed);
        }
        Some(now_ns)
    }

    /// Calls the job's function; what it leaves undone, should it fail or unwind, is noted.
    fn call(&self, worker: Worker, range: Range<u64>) {
        let stopped = || self.is_stopped();
        let number = worker.map_or(0, |cpu| cpu.0 + 1);
        let mut guard =
            BreaksOff { running: self, worker, chunk: Chunk::new(range, number, &stopped), why: PANIC };
        if let Err(error) = (self.job.work)(&guard.chunk) {
            if self.stop(ERROR) {
                *self.error.lock() = Some(error);
            }
            guard.why = ERROR;
        } else {
            core::mem::forget(guard);
        }
    }

    /// Has nobody begin another chunk. True for who stops it first.
    fn stop(&self, why: u32) -> bool {
        self.stopped.compare_exchange(0, why, Relaxed, Relaxed).is_ok()
    }

    fn is_stopped(&self) -> bool {
        if self.stopped.load(Relaxed) == 0 && self.job.stop_if.is_some_and(|stop_if| stop_if()) {
            self.stop(CANCELLED);
        }
        self.stopped.load(Relaxed) != 0
    }

    /// Steals from somebody, on this node first: the first chunk of that is the worker's, the rest goes to its share. Who looks
    /// between the two finds less than there is, and leaves early; nothing is lost by that.
    #[cold]
    fn steal(&self, worker: Worker, pace: u32) -> Option<Grains> {
        let here = self.node_of(worker);
        let near = || self.victims(worker).filter(|&victim| self.node_of(victim) == here);
        let far = || self.victims(worker).filter(|&victim| self.node_of(victim) != here);
        let mut victims = near().chain(far());
        let stolen = victims.find_map(|victim| self.share_of(victim).steal(self.cut.least))?;
        let (first, rest) = share::split(stolen, pace, self.cut.least);
        if !rest.is_empty() {
            self.share_of(worker).put(rest);
        }
        Some(first)
    }

    /// The others: helpers from this CPU on and round, then the caller.
    fn victims(&self, worker: Worker) -> impl Iterator<Item = Worker> {
        let me = worker.unwrap_or(self.caller);
        let others = move || self.helpers.iter().filter(move |&cpu| Some(cpu) != worker);
        let round = others().filter(move |&cpu| cpu >= me).chain(others().filter(move |&cpu| cpu < me));
        round.map(Some).chain(worker.is_some().then_some(None))
    }

    fn node_of(&self, worker: Worker) -> Option<NodeId> {
        let cpu = worker.unwrap_or(self.caller);
        (cpu.0 < self.posts.nr_cpus()).then(|| self.posts.node_of(cpu))
    }
}

impl<W, E, C: Cpu> Visit for Running<'_, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    fn visit(&self, me: CpuId) -> Then {
        let began_ns = C::now_ns();
        while let Some(now_ns) = self.one_chunk(Some(me)) {
            if now_ns.saturating_sub(began_ns) > BOUND_NS {
                return Then::Pause;
            }
            C::relax();
        }
        Then::Leave
    }
}

/// A chunk that did not come to its end: stops the job and notes what is not done. Also where it unwinds.
struct BreaksOff<'a, W, E, C: Cpu>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    running: &'a Running<'a, W, E, C>,
    worker: Worker,
    chunk: Chunk<'a>,
    why: u32,
}

impl<W, E, C: Cpu> Drop for BreaksOff<'_, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    fn drop(&mut self) {
        self.running.stop(self.why);
        self.running.share_of(self.worker).lose(self.chunk.done()..self.chunk.end);
    }
}
