//! A job under way: what all who work on it share, on the caller's stack.

use super::dispatch::{Board, Offer, Terms, Then, Visit};
use super::plan::{self, BOUND_NS, Cut};
use super::share::{Grains, Share};
use super::shares::{Others, Shares, Side};
use super::undo;
use super::value::{Chunk, Failed, Job, Undo};
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::{BoundedList, SpinLock, lockdep};
use crate::units::{CpuId, NodeId};
use core::ops::Range;

// Why nobody begins another chunk.
const ERROR: u32 = 1;
const PANIC: u32 = 2;
const CANCELLED: u32 = 3;

/// Most helpers of one job: as many chunks may be broken off at once, besides the caller's, as can be noted.
pub(super) const MAX_HELPERS: u32 = 63;

/// Laid out by hand: what a helper needs to begin, and between chunks, is on one line with the head of what
/// is shown.
#[repr(C)]
pub(super) struct Running<'a, W, E, C: Cpu> {
    /// What the workers of the caller's node have still to begin.
    first: Share<C>,
    job: &'a Job<'a, W>,
    /// 0 while chunks are begun. Relaxed: it only stops; results are ordered by the end of visits.
    stopped: AtomicU32<C>,
    /// Grains of a chunk that lasts a quarter of the bound, as all have learned. Relaxed: any value is right.
    pace: AtomicU32<C>,
    /// The minimum chunk in grains.
    least: u32,
    /// How many may work on it.
    workers: u16,
    /// What it needs; see [`CUT`] and those behind it.
    needs: u16,
    // From here on what is seldom needed.
    cut: Cut,
    others: Option<&'a Others<C>>,
    board: &'a Board<C>,
    error: SpinLock<Option<E>, C, { lockdep::JOB.0 }>,
    /// What chunks that failed did not do. None begins once one has failed, so those under way then are the
    /// most.
    lost: &'a Lost<C>,
}

// What a job needs that the simplest does not.
/// Its cut, as grains are not the numbers of its range.
const CUT: u16 = 1;
/// A look at how long chunks take: there are more than two.
const PACE: u16 = 2;
/// An ear for who calls it off.
const EAR: u16 = 4;
/// The shares of other nodes.
const NODES: u16 = 8;

/// What chunks that were broken off did not do: from, to.
pub(super) type Lost<C> = BoundedList<(u64, u64), C, { MAX_HELPERS as usize + 1 }>;

/// Who works: a helper, by its CPU, or the caller.
type Worker = Option<CpuId>;

impl<'a, W, E, C: Cpu> Running<'a, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    /// A job that `helpers` may come to, whose caller does the grains before `from`.
    #[inline(always)]
    pub(super) fn new(
        job: &'a Job<'a, W>,
        (cut, from): (Cut, u32),
        (board, helpers): (&'a Board<C>, u32),
        others: Option<&'a Others<C>>,
        lost: &'a Lost<C>,
    ) -> Self {
        #[cfg(not(loom))]
        const {
            assert!(core::mem::offset_of!(Self, cut) == super::dispatch::HEAD_ROOM)
        };
        let need = |which: u16, is_needed: bool| if is_needed { which } else { 0 };
        Self {
            first: Share::of(&(from..cut.count)),
            job,
            stopped: AtomicU32::new(0),
            pace: AtomicU32::new(cut.least),
            least: cut.least,
            workers: helpers as u16 + 1,
            needs: need(CUT, !cut.is_plain)
                | need(PACE, cut.count / 2 > cut.least)
                | need(EAR, job.stop_if.is_some())
                | need(NODES, others.is_some()),
            cut,
            others,
            board,
            error: SpinLock::new(None),
            lost,
        }
    }

    fn needs(&self, which: u16) -> bool {
        self.needs & which != 0
    }

    fn shares(&self) -> Shares<'_, C> {
        Shares { first: &self.first, others: if self.needs(NODES) { self.others } else { None } }
    }

    /// The caller's part: its first chunk, and others until nobody has anything that is not begun.
    #[inline(always)]
    pub(super) fn work_as_caller(&self, first: Grains, offer: &Offer<'_, C>) {
        if self.needs(EAR) && self.is_stopped() {
            return self.lose(self.range(&first));
        }
        let done = first.len() as u32;
        if self.is_shared() && self.needs(PACE) {
            let mut began_ns = Some(C::now_ns());
            self.one_chunk(None, first, &mut began_ns);
            return self.work_on(offer, done, began_ns);
        }
        // Two chunks, as a rule: without a loop, and without a look at the clock.
        self.call(None, self.range(&first));
        if self.is_stopped() {
            return;
        }
        match self.take_last(offer) {
            None => self.work_on(offer, done, None),
            Some(rest) if rest.is_empty() => (),
            Some(rest) => self.call(None, self.range(&rest)),
        }
    }

    /// The caller's part behind a chunk of `done` grains; `began_ns` is when that ended, where it matters.
    #[inline(never)]
    fn work_on(&self, offer: &Offer<'_, C>, mut done: u32, mut began_ns: Option<u64>) {
        let mut mine = done;
        offer.ask_again(Terms { seats: u32::from(self.workers) - 1, nodes: self.job.nodes });
        while !self.is_stopped() {
            if began_ns.is_some() && done > self.pace.load(Relaxed) / 16 {
                C::relax();
            }
            began_ns = self.while_long(began_ns, CALLERS);
            let last = self.take_last(offer);
            let is_last = last.is_some();
            let Some(grains) =
                last.or_else(|| self.next(CALLERS, Side::Front, mine)).filter(|next| !next.is_empty())
            else {
                return;
            };
            done = grains.len() as u32;
            mine = mine.saturating_add(done);
            self.one_chunk(None, grains, &mut began_ns);
            if is_last {
                return;
            }
        }
    }

    /// Whether there is somebody to share with, or to listen to.
    #[inline]
    fn is_shared(&self) -> bool {
        self.workers > 1 || self.needs(EAR)
    }

    /// When the next chunk begins, which is `began_ns`, where that is known. The chunks of what does not take
    /// long need no clock.
    #[inline]
    fn while_long(&self, began_ns: Option<u64>, own: usize) -> Option<u64> {
        let is_long = self.needs(PACE) && self.shares().rest(own).len() as u32 > self.pace.load(Relaxed);
        is_long.then(|| began_ns.unwrap_or_else(C::now_ns))
    }

    #[inline]
    fn range(&self, grains: &Grains) -> Range<u64> {
        let whole = &self.job.range;
        if self.needs(CUT) {
            return self.cut.range(whole, grains);
        }
        whole.start + u64::from(grains.start)..whole.start + u64::from(grains.end)
    }

    /// What helpers have left behind, once they have left: one that pauses right after a theft.
    pub(super) fn work_on_rest(&self) {
        while let Some(grains) =
            if self.is_stopped() { None } else { self.next(CALLERS, Side::Front, u32::MAX) }
        {
            self.one_chunk(None, grains, &mut None);
        }
    }

    /// Takes back what was done, where the job is stopped. Nobody works any more.
    #[inline]
    pub(super) fn undo_if_stopped(&mut self) {
        if let Some(undo) = self.job.undo
            && *self.stopped.get_mut() != 0
        {
            self.undo(undo);
        }
    }

    #[cold]
    fn undo(&mut self, undo: Undo<'a>) {
        // Whoever broke a chunk off has noted it before it left.
        let lost = self.lost.values().unwrap_or_default();
        let rests = || self.shares().rests().map(|rest| self.range(&rest));
        undo::rest_of(&self.job.range, || rests().chain(lost.iter().map(|&(from, to)| from..to)), undo);
    }

    /// How it ended. Nobody works any more.
    #[inline]
    pub(super) fn result(&mut self) -> Result<(), Failed<E>> {
        match *self.stopped.get_mut() {
            0 => Ok(()),
            why => Err(self.why_failed(why)),
        }
    }

    #[cold]
    fn why_failed(&mut self, why: u32) -> Failed<E> {
        match (why, self.error.get_mut().take()) {
            (ERROR, Some(error)) => Failed::Error(error),
            (CANCELLED, _) => Failed::Cancelled,
            _ => Failed::Panicked,
        }
    }

    /// Does one chunk, and learns from it how long they should be, where that is to be learned: `began_ns` is
    /// when the last one ended.
    #[inline]
    fn one_chunk(&self, worker: Worker, grains: Grains, began_ns: &mut Option<u64>) {
        let pace = self.pace.load(Relaxed);
        self.call(worker, self.range(&grains));
        if let Some(began_ns) = began_ns {
            let now_ns = C::now_ns();
            let took_ns = now_ns.saturating_sub(*began_ns);
            *began_ns = now_ns;
            // A chunk that was cut short says little of how many would take long.
            let done = grains.len() as u32;
            if done >= pace || took_ns > BOUND_NS {
                let next = plan::next_pace(done, took_ns, self.least);
                if next != pace {
                    self.pace.store(next, Relaxed);
                }
            }
        }
    }

    /// Calls the job's function; what it leaves undone, should it fail or unwind, is noted.
    #[inline]
    fn call(&self, worker: Worker, range: Range<u64>) {
        let stopped = || self.is_stopped();
        let number = worker.map_or(0, |cpu| cpu.0 + 1);
        let mut guard = BreaksOff { running: self, chunk: Chunk::new(range, number, &stopped), why: PANIC };
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

    #[inline]
    fn is_stopped(&self) -> bool {
        if self.stopped.load(Relaxed) == 0
            && self.needs(EAR)
            && self.job.stop_if.is_some_and(|stop_if| stop_if())
        {
            self.stop(CANCELLED);
        }
        self.stopped.load(Relaxed) != 0
    }

    /// Notes what was taken and is not done.
    #[cold]
    fn lose(&self, range: Range<u64>) {
        let is_noted = self.lost.push((range.start, range.end));
        debug_assert!(is_noted, "more chunks broken off than workers");
    }

    /// How many of `have` grains a worker takes that has had `mine`.
    fn wanted(&self, have: u32, mine: u32) -> u32 {
        let workers = u32::from(self.workers);
        let due = (self.cut.count / workers).saturating_sub(mine);
        plan::chunk(have, due, self.pace.load(Relaxed), self.least, workers)
    }

    /// The next chunk of a worker that has had `mine` grains, where that is to be had.
    #[inline]
    fn next(&self, own: usize, side: Side, mine: u32) -> Option<Grains> {
        self.shares().next(own, side, |have| self.wanted(have, mine), self.least)
    }

    /// All that is left, where the caller's next chunk is the last one and nobody is there: the work is taken
    /// back before it is begun, as nothing is left that could be shared. Nothing, where nothing is left and
    /// there is nowhere that more could come from.
    #[inline]
    fn take_last(&self, offer: &Offer<'_, C>) -> Option<Grains> {
        let (have, least) = (self.first.rest().len() as u32, self.least);
        if have == 0 && !self.needs(NODES) {
            return Some(0..0);
        }
        // The first question is the second, where that is easily answered.
        let is_last = have / 2 < least || have - self.wanted(have, u32::MAX).min(have) < least;
        (is_last && offer.close_unvisited()).then(|| self.first.take_all())
    }
}

/// The caller's share.
const CALLERS: usize = 0;

/// The node of a worker.
pub(super) fn node_of<C: Cpu>(board: &Board<C>, cpu: CpuId) -> NodeId {
    if cpu.0 < board.nr_cpus() { board.node_of(cpu) } else { NodeId(0) }
}

impl<W, E, C: Cpu> Visit for Running<'_, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    fn visit(&self, me: CpuId, began_ns: u64) -> Then {
        let own = self.shares().of_node(|| node_of(self.board, me));
        let (mut began_ns, mut mine) = (self.needs(PACE).then_some(began_ns), 0u32);
        let until_ns = began_ns.map(|now_ns| now_ns.saturating_add(BOUND_NS));
        while !self.is_stopped() {
            if began_ns > until_ns {
                return Then::Pause;
            }
            let Some(grains) = self.next(own, Side::Back, mine) else { break };
            mine = mine.saturating_add(grains.len() as u32);
            self.one_chunk(Some(me), grains, &mut began_ns);
            began_ns = self.while_long(began_ns, own);
        }
        Then::Leave
    }
}

/// A chunk that did not come to its end: stops the job and notes what is not done. Also where it unwinds.
struct BreaksOff<'a, 'b, W, E, C: Cpu>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    running: &'a Running<'b, W, E, C>,
    chunk: Chunk<'a>,
    why: u32,
}

impl<W, E, C: Cpu> Drop for BreaksOff<'_, '_, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    fn drop(&mut self) {
        self.running.stop(self.why);
        self.running.lose(self.chunk.done()..self.chunk.end);
    }
}
