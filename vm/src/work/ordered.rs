//! Ordered queues: many items, worked on in parallel, finished one by one in the order in which they came.
//!
//! Packets to be encrypted are the usual case: each is worked on by itself, on any CPU of one set, and then
//! handed on in order, on the CPU that the submitter chose among another set. A queue is open for as long as
//! a call to [`WorkerPool::ordered`] lasts; the helpers of its CPUs are reserved meanwhile. It lies on the
//! caller's stack, with all its records: submitting allocates nothing.
//!
//! ```text
//!   submit ---> [ records, at most N ] ---> parallel part: on any CPU of one set,
//!                                  |        or in the submitter where there is no room
//!                                  +------> serial part: in order, on the CPU asked for
//! ```
//!
//! Every step notifies the workers that it enables: a submission notifies the parallel workers, the end of a
//! parallel part the worker whose turn it is, the end of a serial part the next one. A worker that is
//! notified during its visit visits again, so no notification is lost. A submitter that waits (for
//! room, or in `flush`) works meanwhile on parallel parts that have not begun, and sleeps only for those
//! under way and for serial parts, which belong to their CPUs.

use super::Spent;
use super::dispatch::{Dispatch, Helpers, Visit, VisitEnd, Work};
use super::partition::MAX_NS;
use super::pool::WorkerPool;
use super::ring::Ring;
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, Ordering::*, fence};
use crate::sync::{SpinLock, lockdep};
use crate::units::{CpuId, CpuMask};
use core::fmt;

/// Why no queue was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotStarted {
    /// No idle helper for parallel parts, or no free work slot.
    NoParallelWorker,
    /// No idle helper for serial parts.
    NoSerialWorker,
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoParallelWorker => "no idle helper on the CPUs for parallel parts",
            Self::NoSerialWorker => "no idle helper on the CPUs for serial parts",
        })
    }
}

impl core::error::Error for NotStarted {}

/// Counts of a queue that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Items submitted.
    pub submitted: u64,
    /// Items whose parallel part panicked on a helper: they were dropped, and the next ones finished.
    pub lost: u64,
    /// Nanoseconds that helpers worked.
    pub helper_ns: u64,
}

/// An open queue of at most `N` items under way; see the module.
pub struct Ordered<'a, T, P, S, C: Cpu, const N: usize> {
    dispatch: &'a Dispatch<'a, C>,
    /// The CPUs whose helpers are reserved for this queue.
    reserved: CpuMask<C::CpuWords>,
    parallel: P,
    serial: S,
    ring: SpinLock<Ring<T, C::CpuWords, N>, C, { lockdep::ORDER.0 }>,
    /// Counts serial parts done, items lost and workers detached. Submitters that wait sleep on it.
    changes: AtomicU32<C>,
    /// Number of submitters that wait.
    waiting: AtomicU32<C>,
}

impl<M: Machine> WorkerPool<'_, M> {
    /// Opens a queue for `N` items at once, calls `f` with it, and returns when everything submitted is
    /// finished. `parallel` works on an item, `serial` finishes it. The caller may sleep, as for
    /// [`WorkerPool::run`].
    ///
    /// ```
    /// use interleaf::work::{WorkerPool, NotStarted};
    /// use interleaf::machine::Machine;
    /// use interleaf::units::{CpuId, CpuMask};
    ///
    /// # struct Packet { cpu: CpuId }
    /// # impl Packet {
    /// #     fn encrypt(&mut self) {}
    /// #     fn send(self) {}
    /// # }
    /// /// Encrypts packets on any CPU of `encryptors` and sends them in order, each on its own CPU.
    /// fn send_all<M: Machine>(
    ///     workers: &WorkerPool<'_, M>,
    ///     encryptors: &CpuMask,
    ///     senders: &CpuMask,
    ///     packets: impl Iterator<Item = Packet>,
    /// ) -> Result<u64, NotStarted> {
    ///     let ((), finished) = workers.ordered::<Packet, _, _, _, 64>(
    ///         (encryptors, senders),
    ///         |packet| packet.encrypt(),
    ///         |packet| packet.send(),
    ///         |queue| {
    ///             packets.for_each(|packet| {
    ///                 let cpu = packet.cpu;
    ///                 queue.submit(packet, cpu);
    ///             });
    ///         },
    ///     )?;
    ///     Ok(finished.submitted)
    /// }
    /// ```
    ///
    /// # Errors
    /// If no helper of a set is idle: no queue was opened, and `f` was not called.
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
        let dispatch = self.dispatch();
        let mut both = self.helper_cpus();
        let words = both.words_mut().iter_mut().enumerate();
        let wanted = |set: &CpuMask, at: usize| set.words().get(at).copied().unwrap_or(0);
        words.for_each(|(at, word)| *word &= wanted(sets.0, at) | wanted(sets.1, at));
        let reserved = dispatch.reserve(both.as_mask());
        let queue = Ordered {
            dispatch,
            reserved: reserved.cpus.clone(),
            parallel,
            serial,
            ring: SpinLock::new(Ring::new(CpuMask::new(), CpuMask::new())),
            changes: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
        };
        queue.set_cpus(sets.0, sets.1)?;
        let published = dispatch.publish(&queue, Helpers::reserved(reserved.cpus.as_mask()), || {
            // Submitted items are finished also where `f` unwinds.
            let _flush = FlushOnDrop(&queue);
            f(&queue)
        });
        let (result, Spent { helper_ns, .. }) = published.ok_or(NotStarted::NoParallelWorker)?;
        let ring = queue.ring.lock();
        Ok((result, Finished { submitted: ring.submitted(), lost: ring.lost, helper_ns }))
    }
}

impl<T: Send, P, S, C: Cpu, const N: usize> Ordered<'_, T, P, S, C, N>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    /// Submits an item whose serial part is to be done on `cpu`, or on another CPU if that one is not in the
    /// set. If all records are taken, this does the parallel part, and waits for room.
    pub fn submit(&self, item: T, cpu: CpuId) {
        let Some(mut item) = self.ring.lock().submit(item, cpu).err() else {
            return self.notify_parallel();
        };
        (self.parallel)(&mut item);
        let mut left = Some(item);
        self.wait_until(|ring| {
            left = left.take().and_then(|item| ring.submit_done(item, cpu).err());
            left.is_none()
        });
        self.notify_turn();
    }

    /// Waits until all items submitted before are finished, and works on parallel parts meanwhile.
    pub fn flush(&self) {
        let until = self.ring.lock().submitted();
        self.wait_until(|ring| ring.finished() >= until);
    }

    /// Changes the CPUs of both sets, among those that the queue was opened with and that still have helpers.
    /// Items under way are not lost: a worker that is no longer in a set finishes what it has begun.
    ///
    /// # Errors
    /// If a set would be left without a helper: nothing is changed.
    pub fn set_cpus(&self, parallel: &CpuMask, serial: &CpuMask) -> Result<(), NotStarted> {
        let usable = |set: &CpuMask| {
            let mut usable = CpuMask::new();
            let is_usable = |cpu: &CpuId| self.reserved.contains(*cpu) && self.dispatch.has_helper_racy(*cpu);
            set.iter().filter(is_usable).for_each(|cpu| usable.insert(cpu));
            usable
        };
        let (parallel, serial) = (usable(parallel), usable(serial));
        if parallel.is_empty() {
            return Err(NotStarted::NoParallelWorker);
        }
        if serial.is_empty() {
            return Err(NotStarted::NoSerialWorker);
        }
        let mut ring = self.ring.lock();
        (ring.parallel, ring.serial) = (parallel, serial);
        drop(ring);
        self.notify_parallel();
        self.notify_turn();
        Ok(())
    }

    /// Works on parallel parts, and sleeps where there is none, until `done` returns true under the lock.
    fn wait_until(&self, mut done: impl FnMut(&mut Ring<T, C::CpuWords, N>) -> bool) {
        self.waiting.fetch_add(1, Relaxed);
        // Pairs with the fence of `announce`: either that sees this submitter waiting, or this sees the
        // change.
        fence::<C>(SeqCst);
        loop {
            let seen = self.changes.load(Acquire);
            if done(&mut self.ring.lock()) {
                break;
            }
            self.notify_turn();
            if !self.one_parallel() {
                self.changes.sleep_while(seen);
                C::relax();
            }
        }
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Does one parallel part, if there is one that has not begun.
    fn one_parallel(&self) -> bool {
        let Some((number, mut item)) = self.ring.lock().begin() else { return false };
        let mut end = EndOnDrop { queue: self, number, item: None };
        (self.parallel)(&mut item);
        end.item = Some(item);
        drop(end);
        self.notify_turn();
        true
    }

    /// Does the first item's serial part, if it is the turn of `cpu`: this one, or none, because no CPU is
    /// left.
    fn one_serial(&self, cpu: Option<CpuId>) -> bool {
        let mut ring = self.ring.lock();
        if ring.turn() != Some(cpu) {
            return false;
        }
        let item = ring.serve();
        drop(ring);
        let served = ServedOnDrop(self);
        if let Some(item) = item {
            (self.serial)(item);
        }
        drop(served);
        true
    }

    /// Notifies all parallel workers: a busy one may stay busy for long.
    fn notify_parallel(&self) {
        let parallel = self.ring.lock().parallel.clone();
        parallel.iter().for_each(|cpu| {
            self.dispatch.notify(cpu);
        });
    }

    /// Notifies the worker whose turn it is. If none is left, does the serial part here.
    fn notify_turn(&self) {
        loop {
            let turn = self.ring.lock().turn();
            match turn {
                Some(Some(cpu)) if !self.dispatch.notify(cpu) => self.forget(cpu),
                Some(None) if self.one_serial(None) => (),
                _ => return,
            }
        }
    }

    /// Takes a CPU out of both sets: its helper leaves, or has left.
    fn forget(&self, cpu: CpuId) {
        let mut ring = self.ring.lock();
        ring.parallel.remove(cpu);
        ring.serial.remove(cpu);
    }

    /// Wakes submitters that wait, as something has changed.
    fn announce(&self) {
        self.changes.fetch_add(1, Release);
        // Pairs with the fence of `wait_until`.
        fence::<C>(SeqCst);
        if self.waiting.load(Relaxed) > 0 {
            self.changes.wake(u32::MAX);
        }
    }
}

impl<T: Send, P, S, C: Cpu, const N: usize> Work<C> for Ordered<'_, T, P, S, C, N>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    fn visit(&self, visit: &Visit<'_, C>) -> VisitEnd {
        let me = visit.cpu();
        loop {
            let is_parallel = self.ring.lock().parallel.contains(me);
            if self.one_serial(Some(me)) {
                self.notify_turn();
            } else if !is_parallel || !self.one_parallel() {
                return VisitEnd::Exhausted;
            }
            if visit.must_leave() || C::now_ns().saturating_sub(visit.began_ns) > MAX_NS {
                return VisitEnd::Paused;
            }
            C::relax();
        }
    }

    fn detach(&self, me: CpuId) {
        self.forget(me);
        self.notify_turn();
        // There may be no worker left for parallel parts but the submitters that wait.
        self.announce();
    }
}

/// A parallel part under way; if it unwinds, the item is lost.
struct EndOnDrop<'q, 'a, T: Send, P, S, C: Cpu, const N: usize>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    queue: &'q Ordered<'a, T, P, S, C, N>,
    number: u64,
    item: Option<T>,
}

impl<T: Send, P, S, C: Cpu, const N: usize> Drop for EndOnDrop<'_, '_, T, P, S, C, N>
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync,
{
    fn drop(&mut self) {
        let is_lost = self.item.is_none();
        self.queue.ring.lock().end(self.number, self.item.take());
        if is_lost {
            // This thread unwinds: a submitter that waits goes on with the next item.
            self.queue.announce();
        }
    }
}

/// A serial part under way; if it unwinds, the next one can be done all the same.
struct ServedOnDrop<'q, 'a, T: Send, P, S, C: Cpu, const N: usize>(&'q Ordered<'a, T, P, S, C, N>)
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync;

impl<T: Send, P, S, C: Cpu, const N: usize> Drop for ServedOnDrop<'_, '_, T, P, S, C, N>
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
struct FlushOnDrop<'q, 'a, T: Send, P, S, C: Cpu, const N: usize>(&'q Ordered<'a, T, P, S, C, N>)
where
    P: Fn(&mut T) + Sync,
    S: Fn(T) + Sync;

impl<T: Send, P, S, C: Cpu, const N: usize> Drop for FlushOnDrop<'_, '_, T, P, S, C, N>
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
        write!(f, "Ordered queue of {N} on {:?}", self.reserved)
    }
}
