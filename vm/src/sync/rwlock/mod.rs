//! A sleeping reader-writer lock that is phase-fair.
//!
//! Readers and writers take turns: while a writer waits, new readers wait too; a writer that releases the
//! lock grants it to all readers that wait, and the last of these grants it to the writer that waited
//! longest. So a reader waits for at most one writer, and a writer for one phase of readers for each writer
//! ahead of it, and one more. (Brandenburg and Anderson, "Spin-based reader-writer synchronization for
//! multiprocessor real-time systems", 2010; here waiters sleep.)
//!
//! # From writer to writer
//!
//! Where only writers wait, a lock that is always granted to a sleeping thread costs a wake-up for each
//! critical section: a *lock convoy*. So a writer that releases the lock while no reader waits leaves it
//! *open*: the first thread that comes takes it, a writer that passes those that wait, or a reader. The
//! writer that waits longest is woken, unless it is awake or on its way already. If it was woken and did not
//! get the lock for as long as it spins, the lock is granted to it at the next release, and so it is after
//! `MAX_PASSES` writers have passed it.
//!
//! ```text
//! writer A   | holds | open, wakes B   | holds | open | holds | open ...
//! writer B   | sleeps ................ wakes up ........ spins       | holds
//! ```
//!
//! The bounds above hold all the same. The lock is opened only where no reader waits, so a reader that waits
//! is never passed. Each phase of readers, also one that begins with a reader that finds the lock open,
//! ends with a grant to the writer that waits longest.
//!
//! # One word holds the state
//!
//! | bits | meaning |
//! |---|---|
//! | 0..28 | number of readers that hold the lock |
//! | 28 | open: no thread holds the lock, writers wait, no reader waits |
//! | 29 | a reader waits; then a writer holds the lock or waits |
//! | 30 | a writer holds the lock (then bits 0..29 are zero) |
//! | 31 | a writer waits |
//!
//! Taking and releasing without a waiter is one read-modify-write each. All else happens under a spin lock,
//! which also guards the counts of waiters; while a writer waits, or a reader waits for the writer that holds
//! the lock, the word changes only there, but for readers that leave. The last release that finds
//! a waiting bit grants the lock, by writing the new holders into the word, or opens it.
//!
//! | a thread waits | until | sleeps on |
//! |---|---|---|
//! | to read | the phase in `reader_phase` has advanced since it set its bit | `reader_phase` |
//! | to write | `served` has passed its ticket, or it is first and finds the lock open | its ticket's word |
//!
//! A granted reader keeps writers out, so `reader_phase` cannot advance again before the reader has seen it;
//! a granted writer keeps out all other grants.
//!
//! A waiter spins before it sleeps. Bit 0 of the word that it sleeps on says that a thread sleeps there: it
//! is set before a thread sleeps, and cleared by the thread that wakes it, which changes the other bits too.
//! So no thread is woken twice, and no wake-up is tried where all waiters spin.

mod wait;
mod word;

use super::atomic::{AtomicU32, Ordering::*};
use super::{SpinLock, lockdep};
use crate::machine::{Cpu, Rank};
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use wait::Queue;
use word::{READER_WAITS, READERS, WRITER, WRITER_WAITS, taken_by_reader};

/// Words that waiting writers sleep on, by their tickets: more writers than that share words.
const TICKET_WORDS: usize = 4;

/// The longest waits for a lock so far, each counted in grants to the other side between a request and its
/// own grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestWaits {
    /// Number of writers that were granted the lock while one reader waited.
    pub writers_before_reader: u32,
    /// Number of phases of readers while one writer waited, less the number of writers that waited ahead of
    /// it.
    pub phases_before_writer: u32,
    /// Number of writers that did not wait and passed the one that waited longest.
    pub writers_past_writer: u32,
}

/// A phase-fair sleeping reader-writer lock of a fixed rank, without data.
pub struct RwLock<C: Cpu, const RANK: u8> {
    /// See the module's table. Taking acquires, releasing releases.
    word: AtomicU32<C>,
    /// The ticket of the writer that waits longest, or the next one's: those before it have been granted the
    /// lock. Written under `queue`.
    served: AtomicU32<C>,
    /// Twice the number of phases of readers that began while a thread waited. Bit 0: see the module.
    reader_phase: AtomicU32<C>,
    /// Twice the number of wake-ups. Bit 0: see the module. Written under `queue`.
    sleepers: [AtomicU32<C>; TICKET_WORDS],
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
            served: AtomicU32::new(0),
            reader_phase: AtomicU32::new(0),
            sleepers: [const { AtomicU32::new(0) }; TICKET_WORDS],
            most_phases: AtomicU32::new(0),
            queue: SpinLock::new(Queue::new()),
        }
    }

    /// The longest waits so far. Those of requests that were granted without a wait are not counted.
    pub fn longest_waits(&self) -> LongestWaits {
        let queue = self.queue.lock();
        LongestWaits {
            writers_before_reader: queue.most_writers,
            phases_before_writer: self.most_phases.load(Relaxed),
            writers_past_writer: queue.most_passes,
        }
    }

    /// Takes the lock for reading; sleeps while a writer holds it or waits for it.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwReadGuard<'_, C, RANK> {
        lockdep::acquire::<C>(Rank(RANK));
        let word = self.word.load(Relaxed);
        // One comparison says that no bit but those of readers is set, and that one more fits.
        let is_taken = word < READERS && self.word.compare_exchange(word, word + 1, Acquire, Relaxed).is_ok();
        if !is_taken {
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
            lock.let_readers_in();
        }
        RwReadGuard { lock, _thread: PhantomData }
    }
}

impl<C: Cpu, const RANK: u8> Drop for RwReadGuard<'_, C, RANK> {
    #[inline]
    fn drop(&mut self) {
        lockdep::release::<C>(Rank(RANK));
        let after = self.lock.word.fetch_sub(1, Release) - 1;
        if after & (WRITER_WAITS | READERS) == WRITER_WAITS {
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
#[path = "../tests/loom_rwlock.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "../tests/rwlock.rs"]
mod tests;
