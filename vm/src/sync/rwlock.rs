//! A sleeping reader-writer lock.
//!
//! One word holds its state:
//!
//! | bits | meaning |
//! |---|---|
//! | 0..29 | number of readers that hold the lock |
//! | 29 | a reader waits |
//! | 30 | a writer holds the lock (then bits 0..29 are zero) |
//! | 31 | a writer waits: new readers wait too |
//!
//! Taking and releasing without a waiter is one read-modify-write each. Everything else happens under a spin
//! lock that guards the counts of waiters and the two waiting bits: a thread that cannot take the lock sets
//! its bit there, checks again, and sleeps on its side's `turn`; a thread that frees the lock and sees a
//! waiting bit wakes one writer if one waits, else all readers.
//!
//! Why no wake-up is lost: a waiter sets its bit with a read-modify-write on the word and checks the value
//! that it returned. Either it sees the lock free and takes it, or the thread that frees it later sees the
//! bit. The turn is read under the spin lock that the waker takes before it advances the turn, so the sleeper
//! either sees the turn advanced or is woken.

use super::atomic::{AtomicU32, Ordering::*};
use super::{SpinLock, lockdep};
use crate::machine::{Cpu, Rank};
use core::fmt;
use core::marker::PhantomData;

const READERS: u32 = (1 << 29) - 1;
const READER_WAITS: u32 = 1 << 29;
const WRITER: u32 = 1 << 30;
const WRITER_WAITS: u32 = 1 << 31;
const WAITING: u32 = READER_WAITS | WRITER_WAITS;

/// How a thread takes the lock.
#[derive(Clone, Copy)]
enum Mode {
    Read,
    Write,
}

impl Mode {
    /// The word after taking the lock, if `word` allows it. `queued` says that the thread has waited its
    /// turn.
    fn taken(self, word: u32, queued: bool) -> Option<u32> {
        match self {
            Mode::Read if word & WRITER != 0 || (word & WRITER_WAITS != 0 && !queued) => None,
            Mode::Read => (word & READERS != READERS).then_some(word + 1),
            Mode::Write => (word & (READERS | WRITER) == 0).then_some(word | WRITER),
        }
    }

    const fn bit(self) -> u32 {
        match self {
            Mode::Read => READER_WAITS,
            Mode::Write => WRITER_WAITS,
        }
    }
}

/// The counts of waiting threads.
struct Waiters {
    /// By [`Mode`].
    counts: [u32; 2],
}

/// A sleeping reader-writer lock of a fixed rank, without data. It prefers writers.
pub struct RwLock<C: Cpu, const RANK: u8> {
    /// See the module's table. Taking acquires, releasing releases.
    word: AtomicU32<C>,
    /// Advanced before a side is woken, by [`Mode`].
    turn: [AtomicU32<C>; 2],
    waiters: SpinLock<Waiters, C, { lockdep::RWLOCK_QUEUE.0 }>,
}

/// The lock, held for reading.
#[must_use = "the lock is released once this is dropped"]
pub struct RwReadGuard<'a, C: Cpu, const RANK: u8> {
    lock: &'a RwLock<C, RANK>,
    _thread: PhantomData<*const ()>,
}

/// The lock, held for writing.
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
            turn: [AtomicU32::new(0), AtomicU32::new(0)],
            waiters: SpinLock::new(Waiters { counts: [0; 2] }),
        }
    }

    /// Takes the lock for reading; sleeps while a writer holds it or waits for it.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwReadGuard<'_, C, RANK> {
        lockdep::acquire::<C>(Rank(RANK));
        let word = self.word.load(Relaxed);
        let fast = |next| self.word.compare_exchange(word, next, Acquire, Relaxed).is_ok();
        let taken = Mode::Read.taken(word, false).is_some_and(fast);
        if !taken {
            self.lock_slow(Mode::Read);
        }
        RwReadGuard { lock: self, _thread: PhantomData }
    }

    /// Takes the lock for reading unless a writer holds it or waits for it.
    #[inline]
    pub fn try_read(&self) -> Option<RwReadGuard<'_, C, RANK>> {
        self.word.update(Acquire, Relaxed, |word| Mode::Read.taken(word, false)).ok()?;
        lockdep::acquire_unordered::<C>(Rank(RANK));
        Some(RwReadGuard { lock: self, _thread: PhantomData })
    }

    /// Takes the lock for writing; sleeps while another thread holds it.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwWriteGuard<'_, C, RANK> {
        lockdep::acquire::<C>(Rank(RANK));
        if self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_err() {
            self.lock_slow(Mode::Write);
        }
        RwWriteGuard { lock: self, _thread: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, mode: Mode) {
        let side = mode as usize;
        let mut queued = false;
        loop {
            let mut waiters = self.waiters.lock();
            if queued {
                waiters.counts[side] -= 1;
                if waiters.counts[side] == 0 {
                    self.word.fetch_and(!mode.bit(), Relaxed);
                }
            }
            if self.word.update(Acquire, Relaxed, |word| mode.taken(word, queued)).is_ok() {
                return;
            }
            waiters.counts[side] += 1;
            queued = true;
            let turn = self.turn[side].load(Relaxed);
            let word = self.word.fetch_or(mode.bit(), Relaxed);
            drop(waiters);
            if mode.taken(word, true).is_none() {
                self.turn[side].sleep_while(turn);
            }
        }
    }

    /// Called by a thread that freed the lock and saw a waiting bit.
    #[cold]
    #[inline(never)]
    fn wake_next(&self) {
        let waiters = self.waiters.lock();
        let (side, count) = if waiters.counts[Mode::Write as usize] > 0 {
            (Mode::Write as usize, 1)
        } else {
            (Mode::Read as usize, u32::MAX)
        };
        self.turn[side].fetch_add(1, Relaxed);
        drop(waiters);
        self.turn[side].wake(count);
    }
}

impl<C: Cpu, const RANK: u8> Drop for RwReadGuard<'_, C, RANK> {
    #[inline]
    fn drop(&mut self) {
        lockdep::release::<C>(Rank(RANK));
        let before = self.lock.word.fetch_sub(1, Release);
        if before & WAITING != 0 && before & READERS == 1 {
            self.lock.wake_next();
        }
    }
}

impl<C: Cpu, const RANK: u8> Drop for RwWriteGuard<'_, C, RANK> {
    #[inline]
    fn drop(&mut self) {
        lockdep::release::<C>(Rank(RANK));
        let before = self.lock.word.fetch_and(!WRITER, Release);
        if before & WAITING != 0 {
            self.lock.wake_next();
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
