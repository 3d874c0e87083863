//! Ordered jobs: many items, worked on in parallel, finished one by one in the order in which they came.
//!
//! Packets to be encrypted are the usual case: each is worked on by itself, on any CPU of one set, and then
//! handed on in order, on the CPU that the submitter chose among another set. A queue is open for as long as
//! a call to [`WorkerPool::ordered`] lasts; the helpers of its CPUs are its own meanwhile. It lies on the
//! caller's stack, with all its records: submitting allocates nothing.
//!
//! ```text
//!   submit ---> [ records, at most N ] ---> parallel part on any CPU of one set, or in the submitter where there is no room
//!                                  \------> serial part, in order, on the CPU asked for
//! ```
//!
//! Whoever makes something possible rings for who can do it: a submission for a parallel CPU, the end of a
//! parallel part for the CPU whose turn it is, the end of a serial part for the next. A helper that is rung
//! for while it is there looks again, so no bell is lost. Who waits (for room, or in `flush`) works meanwhile
//! on parallel parts that nobody has begun, and sleeps only for those under way and for serial parts, which
//! belong to their CPUs.

use super::dispatch::{Board, Then, Visit};
use super::plan::BOUND_NS;
use super::pool::WorkerPool;
use super::ring::Ring;
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, Ordering::*, fence};
use crate::sync::{SpinLock, lockdep};
use crate::units::{CpuId, CpuMask};
use core::fmt;

/// No queue could be opened: no helper of the parallel set, or none of the serial set, was there and idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// Nobody for parallel parts.
    NobodyParallel,
    /// Nobody for serial parts.
    NobodySerial,
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NobodyParallel => "no idle helper on the CPUs for parallel parts",
            Self::NobodySerial => "no idle helper on the CPUs for serial parts",
        })
    }
}

impl core::error::Error for NotStarted {}

/// What became of the items of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Items submitted.
    pub submitted: u64,
    /// Those whose parallel part panicked on a helper: they were dropped, and the next served.
    pub lost: u64,
    /// Nanoseconds that helpers worked.
    pub helper_ns: u64,
}

/// An open queue of at most `N` items under way; see the module.
pub struct Ordered<'a, T, P, S, C: Cpu, const N: usize> {
    posts: &'a Board<C>,
    /// The CPUs whose helpers are this queue's.
    claimed: CpuMask,
    parallel: P,
    serial: S,
    ring: SpinLock<Ring<T, N>, C, { lockdep::ORDER.0 }>,
    /// Counts serial parts done, items lost and CPUs gone. Who waits sleeps on it.
    news: AtomicU32<C>,
    /// How many wait.
    waiting: AtomicU32<C>,
}

impl<M: Machine> WorkerPool<'_, M> {
    /// Opens a queue for `N` items at once, calls `f` with it, and returns when everything submitted is
    /// finished. `parallel` works on an item, `serial` finishes it. The caller may sleep, as for
    /// [`WorkerPool::run`].
    ///
    /// # Errors
    /// Where no helper of a set is there: nothing was done.
    pub fn ordered<T: Send, R, P, S, const N: usize>(
        &self,
        sets: (&CpuMask, &CpuMask),
        parallel: P,
        serial: S,
        f: impl FnOnce(&Ordered<'_, T, P, S, M::Cpu, N>) -> R,
    ) -> Result<(R, Finished), NotStarted>
    where
        P: Fn(&mut T) + Sync,
        S: Fn(T) + Sync,
    {
        const { assert!(N > 0, "a queue without room") };
        let posts = self.board();
        let mut both = *sets.0;
        sets.1.iter().for_each(|cpu| both.insert(cpu));
        let mut reserved = self.reserve(both.count());
        let mut claimed = posts.claim(reserved.count(), both.iter().filter(|cpu| cpu.0 < posts.nr_cpus()));
        reserved.keep(claimed.cpus().count());
        let queue = Ordered {
            posts,
            claimed: *claimed.cpus(),
            parallel,
            serial,
            ring: SpinLock::new(Ring::new(CpuMask::EMPTY, CpuMask::EMPTY)),
            news: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
        };
        queue.set_cpus(sets.0, sets.1)?;
        let result = claimed.lend(&queue, || {
            // Also where `f` unwinds: what was submitted is finished.
            let flushes = Flushes(&queue);
            let result = f(&queue);
            drop(flushes);
            result
        });
        let helper_ns = claimed.spent_ns();
        M::Cpu::with_context(|context| context.add_helper_ns(helper_ns));
        let (submitted, lost) = {
            let ring = queue.ring.lock();
            (ring.submitted(), ring.lost)
        };
        Ok((result, Finished { submitted, lost, helper_ns }))
    }
}

impl<T: Send, P, S, C: Cpu, const N: usize> Ordered<'_, T, P, S, C, N>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    /// Hands an item in: its serial part is to be done on `cpu`, or where that is not in the set, on another.
    /// Where all records are taken, the parallel part is done here, and room is waited for.
    pub fn submit(&self, item: T, cpu: CpuId) {
        let Some(mut item) = self.ring.lock().submit(item, cpu).err() else {
            return self.ring_parallel();
        };
        (self.parallel)(&mut item);
        let mut left = Some(item);
        self.wait_until(|ring| {
            left = left.take().and_then(|item| ring.submit_done(item, cpu).err());
            left.is_none()
        });
        self.ring_turn();
    }

    /// Waits until all that was submitted before is finished, working on parallel parts meanwhile.
    pub fn flush(&self) {
        let until = self.ring.lock().submitted();
        self.wait_until(|ring| ring.finished() >= until);
    }

    /// Changes which CPUs do what, from now on, among those that the queue was opened with and that have
    /// helpers still. Items under way are not lost: who is no longer in a set finishes what it has begun.
    ///
    /// # Errors
    /// Where a set would be left without a helper: nothing is changed.
    pub fn set_cpus(&self, parallel: &CpuMask, serial: &CpuMask) -> Result<(), NotStarted> {
        let usable = |set: &CpuMask| {
            let mut usable = CpuMask::EMPTY;
            let is_usable = |cpu: &CpuId| self.claimed.contains(*cpu) && self.posts.is_served_racy(*cpu);
            set.iter().filter(is_usable).for_each(|cpu| usable.insert(cpu));
            usable
        };
        let (parallel, serial) = (usable(parallel), usable(serial));
        if parallel.is_empty() {
            return Err(NotStarted::NobodyParallel);
        }
        if serial.is_empty() {
            return Err(NotStarted::NobodySerial);
        }
        let mut ring = self.ring.lock();
        (ring.parallel, ring.serial) = (parallel, serial);
        drop(ring);
        self.ring_parallel();
        self.ring_turn();
        Ok(())
    }

    /// Works, and sleeps where there is nothing to work on, until `done` says so under the lock.
    fn wait_until(&self, mut done: impl FnMut(&mut Ring<T, N>) -> bool) {
        self.waiting.fetch_add(1, Relaxed);
        // Pairs with the fence of `announce`: either that sees us waiting, or we see what it announces.
        fence::<C>(SeqCst);
        loop {
            let seen = self.news.load(Acquire);
            if done(&mut self.ring.lock()) {
                break;
            }
            self.ring_turn();
            if !self.one_parallel() {
                self.news.sleep_while(seen);
                C::relax();
            }
        }
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// One parallel part, if there is one that nobody has begun.
    fn one_parallel(&self) -> bool {
        let Some((number, mut item)) = self.ring.lock().begin() else { return false };
        let mut ends = Ends { queue: self, number, item: None };
        (self.parallel)(&mut item);
        ends.item = Some(item);
        drop(ends);
        self.ring_turn();
        true
    }

    /// The first item's serial part, if it is the turn of `who`: this CPU, or nobody, because none is left.
    fn one_serial(&self, who: Option<CpuId>) -> bool {
        let mut ring = self.ring.lock();
        if ring.turn() != Some(who) {
            return false;
        }
        let item = ring.serve();
        drop(ring);
        let serves = Serves(self);
        if let Some(item) = item {
            (self.serial)(item);
        }
        drop(serves);
        true
    }

    /// Rings for all CPUs that may do parallel parts, as those that are busy may be so for long.
    fn ring_parallel(&self) {
        let parallel = self.ring.lock().parallel;
        parallel.iter().for_each(|cpu| {
            self.posts.ring(cpu);
        });
    }

    /// Rings for the CPU whose turn it is. Where none is left, it is this one's.
    fn ring_turn(&self) {
        loop {
            let turn = self.ring.lock().turn();
            match turn {
                Some(Some(cpu)) if !self.posts.ring(cpu) => self.forget(cpu),
                Some(None) if self.one_serial(None) => (),
                _ => return,
            }
        }
    }

    /// A CPU whose helper is gone does nothing any more.
    fn forget(&self, cpu: CpuId) {
        let mut ring = self.ring.lock();
        ring.parallel.remove(cpu);
        ring.serial.remove(cpu);
    }

    /// Tells those who wait that something has changed.
    fn announce(&self) {
        self.news.fetch_add(1, Release);
        // Pairs with the fence of `wait_until`.
        fence::<C>(SeqCst);
        if self.waiting.load(Relaxed) > 0 {
            self.news.wake(u32::MAX);
        }
    }
}

impl<T: Send, P, S, C: Cpu, const N: usize> Visit for Ordered<'_, T, P, S, C, N>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    fn visit(&self, me: CpuId, _: u64) -> Then {
        let began_ns = C::now_ns();
        loop {
            let may = self.ring.lock().parallel.contains(me);
            let served = self.one_serial(Some(me));
            if served {
                self.ring_turn();
            } else if !may || !self.one_parallel() {
                return Then::Leave;
            }
            if C::now_ns().saturating_sub(began_ns) > BOUND_NS {
                return Then::Pause;
            }
            C::relax();
        }
    }

    fn gone(&self, me: CpuId) {
        self.forget(me);
        self.ring_turn();
        // Nobody may be left for parallel parts but those who wait.
        self.announce();
    }
}

/// A parallel part under way; where it unwinds the item is lost.
struct Ends<'q, 'a, T: Send, P, S, C: Cpu, const N: usize>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    queue: &'q Ordered<'a, T, P, S, C, N>,
    number: u64,
    item: Option<T>,
}

impl<T: Send, P, S, C: Cpu, const N: usize> Drop for Ends<'_, '_, T, P, S, C, N>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    fn drop(&mut self) {
        let is_lost = self.item.is_none();
        self.queue.ring.lock().end(self.number, self.item.take());
        if is_lost {
            // Who waits sees to the next; this thread is on its way out.
            self.queue.announce();
        }
    }
}

/// A serial part under way; the next can be done also where it unwinds.
struct Serves<'q, 'a, T: Send, P, S, C: Cpu, const N: usize>(&'q Ordered<'a, T, P, S, C, N>)
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync;

impl<T: Send, P, S, C: Cpu, const N: usize> Drop for Serves<'_, '_, T, P, S, C, N>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    fn drop(&mut self) {
        self.0.ring.lock().served();
        self.0.announce();
    }
}

/// Flushes when dropped.
struct Flushes<'q, 'a, T: Send, P, S, C: Cpu, const N: usize>(&'q Ordered<'a, T, P, S, C, N>)
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync;

impl<T: Send, P, S, C: Cpu, const N: usize> Drop for Flushes<'_, '_, T, P, S, C, N>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    fn drop(&mut self) {
        self.0.flush();
    }
}

impl<T, P, S, C: Cpu, const N: usize> fmt::Debug for Ordered<'_, T, P, S, C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ordered queue of {N} on {:?}", self.claimed)
    }
}
