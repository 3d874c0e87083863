//! A sleeping reader-writer lock that is phase-fair.
//!
//! Readers and writers take turns: while a writer waits, new readers wait too; a writer that releases the
//! lock grants it to all readers that wait, and the last of these grants it to the writer that waited
//! longest. So a reader waits for at most one writer, and a writer for one phase of readers for each writer
//! ahead of it, and one more. (Brandenburg and Anderson, "Spin-based reader-writer synchronization for
//! multiprocessor real-time systems", 2010; here waiters sleep.)
//!
//! One word holds the state:
//!
//! | bits | meaning |
//! |---|---|
//! | 0..29 | number of readers that hold the lock |
//! | 29 | a reader waits; then a writer holds the lock or waits |
//! | 30 | a writer holds the lock (then bits 0..29 are zero) |
//! | 31 | a writer waits |
//!
//! Taking and releasing without a waiter is one read-modify-write each. The waiting bits change only under a
//! spin lock, which also guards the counts of waiters. A thread that cannot take the lock sets its bit there,
//! by the read-modify-write that found the lock taken. Whoever releases the lock last and finds a waiting bit
//! grants it under the spin lock: it writes the new holders into the word before it wakes them. The word
//! never says *free* while a thread waits, so no newcomer passes a waiter, and a woken thread holds the lock
//! already.
//!
//! | a thread waits | until |
//! |---|---|
//! | to read | `reader_phase` has advanced since it set its bit |
//! | to write | the word of its ticket says its ticket |
//!
//! A granted reader keeps writers out, so `reader_phase` cannot advance again before the reader has seen it;
//! a granted writer keeps out all other grants.

use super::atomic::{AtomicU32, Ordering::*};
use super::{SpinLock, lockdep};
use crate::machine::{Cpu, Rank};
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

const READERS: u32 = (1 << 29) - 1;
const READER_WAITS: u32 = 1 << 29;
const WRITER: u32 = 1 << 30;
const WRITER_WAITS: u32 = 1 << 31;

/// Words that waiting writers sleep on, by their tickets: more writers than that share words.
const TICKET_WORDS: usize = 4;

/// Times that a waiter calls `relax` before it sleeps: about as long as waking a thread takes. A model has no
/// use for it.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };

/// The word after a reader has taken the lock, unless a writer holds it or waits.
fn taken_by_reader(word: u32) -> Option<u32> {
    (word & (WRITER | WRITER_WAITS) == 0 && word & READERS != READERS).then_some(word + 1)
}

/// The word after a writer has taken the lock, if it is free.
fn taken_by_writer(word: u32) -> Option<u32> {
    (word == 0).then_some(WRITER)
}

/// The threads that wait.
struct Queue {
    /// Readers; granted together.
    nr_readers: u32,
    /// Writers; granted one by one, in the order of their tickets.
    nr_writers: u32,
    /// The ticket of the next writer that waits.
    next_ticket: u32,
    /// The first writer's ticket when the reader that waits longest began to wait.
    ticket_at_first_reader: u32,
    /// [`LongestWaits::writers_before_reader`].
    most_writers: u32,
}

impl Queue {
    /// The ticket of the writer that waits longest, or the next one's.
    fn first_ticket(&self) -> u32 {
        self.next_ticket.wrapping_sub(self.nr_writers)
    }
}

/// The longest waits for a lock so far, each counted in grants to the other side between a request and its
/// own grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestWaits {
    /// Number of writers that were granted the lock while one reader waited.
    pub writers_before_reader: u32,
    /// Number of phases of readers while one writer waited, less the number of writers that waited ahead of
    /// it.
    pub phases_before_writer: u32,
}

/// A phase-fair sleeping reader-writer lock of a fixed rank, without data.
pub struct RwLock<C: Cpu, const RANK: u8> {
    /// See the module's table. Taking acquires, releasing releases.
    word: AtomicU32<C>,
    /// Number of times that waiting readers were granted the lock.
    reader_phase: AtomicU32<C>,
    /// One more than the ticket that was granted last of those that share the word.
    granted: [AtomicU32<C>; TICKET_WORDS],
    /// [`LongestWaits::phases_before_writer`]. Written by a writer that holds the lock.
    most_phases: AtomicU32<C>,
    queue: SpinLock<Queue, C, { lockdep::RWLOCK_QUEUE.0 }>,
}

/// The lock, held for reading, by the thread that has taken it:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// fn check<C: interleaf::machine::Cpu>() { is_send::<interleaf::sync::RwReadGuard<'static, C, 0>>(); }
/// ```
#[must_use = "the lock is released once this is dropped"]
pub struct RwReadGuard<'a, C: Cpu, const RANK: u8> {
    lock: &'a RwLock<C, RANK>,
    _thread: PhantomData<*const ()>,
}

/// The lock, held for writing, by the thread that has taken it:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// fn check<C: interleaf::machine::Cpu>() { is_send::<interleaf::sync::RwWriteGuard<'static, C, 0>>(); }
/// ```
#[must_use = "the lock is released once this is dropped"]
pub struct RwWriteGuard<'a, C: Cpu, const RANK: u8> {
    lock: &'a RwLock<C, RANK>,
    _thread: PhantomData<*const ()>,
}

impl<C: Cpu, const RANK: u8> RwLock<C, RANK> {
    /// A free lock.
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            reader_phase: AtomicU32::new(0),
            granted: [const { AtomicU32::new(0) }; TICKET_WORDS],
            most_phases: AtomicU32::new(0),
            queue: SpinLock::new(Queue {
                nr_readers: 0,
                nr_writers: 0,
                next_ticket: 0,
                ticket_at_first_reader: 0,
                most_writers: 0,
            }),
        }
    }

    /// The longest waits so far. Those of requests that were granted without a wait are not counted.
    pub fn longest_waits(&self) -> LongestWaits {
        LongestWaits {
            writers_before_reader: self.queue.lock().most_writers,
            phases_before_writer: self.most_phases.load(Relaxed),
        }
    }

    /// Takes the lock for reading; sleeps while a writer holds it or waits for it.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwReadGuard<'_, C, RANK> {
        lockdep::acquire::<C>(Rank(RANK));
        let word = self.word.load(Relaxed);
        let fast = |next| self.word.compare_exchange(word, next, Acquire, Relaxed).is_ok();
        if !taken_by_reader(word).is_some_and(fast) {
            self.read_slow();
        }
        RwReadGuard { lock: self, _thread: PhantomData }
    }

    /// Takes the lock for reading unless a writer holds it or waits for it.
    #[inline]
    pub fn try_read(&self) -> Option<RwReadGuard<'_, C, RANK>> {
        self.word.update(Acquire, Relaxed, taken_by_reader).ok()?;
        lockdep::acquire_unordered::<C>(Rank(RANK));
        Some(RwReadGuard { lock: self, _thread: PhantomData })
    }

    /// Takes the lock for writing; sleeps while another thread holds it.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwWriteGuard<'_, C, RANK> {
        lockdep::acquire::<C>(Rank(RANK));
        if self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_err() {
            self.write_slow();
        }
        RwWriteGuard { lock: self, _thread: PhantomData }
    }

    /// Takes the lock, or sets `waiting` in the word. The spin lock is held. Returns whether it was taken.
    fn take_or_wait(&self, taken: fn(u32) -> Option<u32>, waiting: u32) -> bool {
        let next = |word| Some(taken(word).unwrap_or(word | waiting));
        self.word.update(Acquire, Relaxed, next).is_ok_and(|word| taken(word).is_some())
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self) {
        let mut queue = self.queue.lock();
        // Readers alone keep out readers only where guards were forgotten.
        assert!(self.word.load(Relaxed) & READERS != READERS, "a lock has too many readers");
        if self.take_or_wait(taken_by_reader, READER_WAITS) {
            return;
        }
        if queue.nr_readers == 0 {
            queue.ticket_at_first_reader = queue.first_ticket();
        }
        queue.nr_readers += 1;
        let (phase, next_writer) = (self.reader_phase.load(Relaxed), queue.first_ticket());
        drop(queue);
        self.wait(&self.reader_phase, |now| now != phase);
        debug_assert!(
            self.queue.lock().first_ticket().wrapping_sub(next_writer) <= 1,
            "a reader waits for at most one writer"
        );
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self) {
        let mut queue = self.queue.lock();
        if self.take_or_wait(taken_by_writer, WRITER_WAITS) {
            return;
        }
        let (ticket, nr_ahead) = (queue.next_ticket, queue.nr_writers);
        queue.next_ticket = ticket.wrapping_add(1);
        queue.nr_writers += 1;
        let phase = self.reader_phase.load(Relaxed);
        drop(queue);
        self.wait(self.ticket_word(ticket), |now| now == ticket.wrapping_add(1));
        let phases = self.reader_phase.load(Relaxed).wrapping_sub(phase);
        let beyond_ahead = phases.saturating_sub(nr_ahead);
        if beyond_ahead > self.most_phases.load(Relaxed) {
            self.most_phases.store(beyond_ahead, Relaxed);
        }
        debug_assert!(
            beyond_ahead <= 1,
            "a writer waits for one phase of readers for each writer ahead, and one more"
        );
    }

    /// Waits until the word, which a grant writes, is as `granted` says.
    fn wait(&self, word: &AtomicU32<C>, granted: impl Fn(u32) -> bool) {
        for _ in 0..SPINS {
            if granted(word.load(Acquire)) {
                return;
            }
            C::relax();
        }
        loop {
            // A read-modify-write reads the newest value, so that the thread does not sleep on an old one.
            let now = word.fetch_or(0, Acquire);
            if granted(now) {
                return;
            }
            word.sleep_while(now);
        }
    }

    fn ticket_word(&self, ticket: u32) -> &AtomicU32<C> {
        &self.granted[ticket as usize % TICKET_WORDS]
    }

    /// The last reader has gone, and a writer waits: grants it the lock.
    #[cold]
    #[inline(never)]
    fn end_reader_phase(&self) {
        let granted = self.grant_writer(&mut self.queue.lock());
        granted.wake(u32::MAX);
    }

    /// The writer goes, and a thread waits: grants the lock to all waiting readers, else to the next writer.
    #[cold]
    #[inline(never)]
    fn end_writer_phase(&self) {
        let mut queue = self.queue.lock();
        let readers_next = queue.nr_readers > 0 && !mutant!("rwlock.writers-first") || queue.nr_writers == 0;
        let granted =
            if readers_next { self.grant_readers(&mut queue, 0) } else { self.grant_writer(&mut queue) };
        drop(queue);
        granted.wake(u32::MAX);
    }

    /// Makes the waiting readers holders of the lock, beside `nr_holding` that the writer leaves. Returns the
    /// word to wake.
    fn grant_readers(&self, queue: &mut Queue, nr_holding: u32) -> &AtomicU32<C> {
        let nr_readers = core::mem::take(&mut queue.nr_readers);
        // A writer holds the lock and a waiting bit is set: the word changes under the spin lock only.
        let waiting = self.word.load(Relaxed) & WRITER_WAITS;
        self.word.store(waiting | (nr_readers + nr_holding), Release);
        if nr_readers > 0 {
            let writers = queue.first_ticket().wrapping_sub(queue.ticket_at_first_reader);
            queue.most_writers = queue.most_writers.max(writers);
            self.reader_phase.fetch_add(1, Release);
        }
        &self.reader_phase
    }

    /// Makes the writer that waits longest the holder. No reader holds the lock. Returns the word to wake.
    fn grant_writer(&self, queue: &mut Queue) -> &AtomicU32<C> {
        let ticket = queue.first_ticket();
        queue.nr_writers -= 1;
        let waits = if queue.nr_writers > 0 { WRITER_WAITS } else { 0 };
        // Acquire: what readers did before they released the lock. As above, nothing else changes the word.
        let order = if mutant!("rwlock.granted-without-acquire") { Relaxed } else { Acquire };
        let readers_wait = self.word.load(order) & READER_WAITS;
        self.word.store(WRITER | waits | readers_wait, Relaxed);
        self.ticket_word(ticket).swap(ticket.wrapping_add(1), Release);
        self.ticket_word(ticket)
    }
}

impl<'a, C: Cpu, const RANK: u8> RwWriteGuard<'a, C, RANK> {
    /// Whether a reader waits; stale at once.
    #[inline]
    pub(crate) fn is_reader_waiting(&self) -> bool {
        self.lock.word.load(Relaxed) & READER_WAITS != 0
    }

    /// Holds the lock for reading from now on, and begins a phase of readers: no writer comes between.
    #[inline]
    pub fn downgrade(self) -> RwReadGuard<'a, C, RANK> {
        let lock = ManuallyDrop::new(self).lock;
        if lock.word.compare_exchange(WRITER, 1, Release, Relaxed).is_err() {
            let granted = lock.grant_readers(&mut lock.queue.lock(), 1);
            granted.wake(u32::MAX);
        }
        RwReadGuard { lock, _thread: PhantomData }
    }
}

impl<C: Cpu, const RANK: u8> Drop for RwReadGuard<'_, C, RANK> {
    #[inline]
    fn drop(&mut self) {
        lockdep::release::<C>(Rank(RANK));
        let before = self.lock.word.fetch_sub(1, Release);
        if before & WRITER_WAITS != 0 && before & READERS == 1 {
            self.lock.end_reader_phase();
        }
    }
}

impl<C: Cpu, const RANK: u8> Drop for RwWriteGuard<'_, C, RANK> {
    #[inline]
    fn drop(&mut self) {
        lockdep::release::<C>(Rank(RANK));
        if self.lock.word.compare_exchange(WRITER, 0, Release, Relaxed).is_err() {
            self.lock.end_writer_phase();
        }
    }
}

impl<C: Cpu, const RANK: u8> Default for RwLock<C, RANK> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cpu, const RANK: u8> fmt::Debug for RwLock<C, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Relaxed);
        write!(f, "{} readers, writer {}", word & READERS, word & WRITER != 0)
    }
}

impl<C: Cpu, const RANK: u8> fmt::Debug for RwReadGuard<'_, C, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("held for reading")
    }
}

impl<C: Cpu, const RANK: u8> fmt::Debug for RwWriteGuard<'_, C, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("held for writing")
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_rwlock.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "tests/rwlock.rs"]
mod tests;
