//! A sleeping reader-writer lock: many share it, or one has it alone.
//!
//! One word says who holds it and whether somebody waits:
//!
//! | bits | meaning |
//! |---|---|
//! | 0..29 | how many share the lock |
//! | 29 | somebody waits to share it |
//! | 30 | one has it alone (then bits 0..29 are zero) |
//! | 31 | somebody waits to have it alone: newcomers that want to share wait too |
//!
//! Taking and giving back without a waiter is one read-modify-write each. Everything else happens under a
//! spin lock that guards the waiters' counts and the two waiting bits: who cannot take the lock sets its bit
//! there, looks again, and sleeps on its side's `turn`; who makes the lock free and sees a waiting bit wakes
//! one waiter for the lock alone if there is one, else all that want to share.
//!
//! Why no wake-up is lost: a waiter sets its bit with a read-modify-write on the word and looks at what that
//! returned. Either it sees the lock free and takes it, or the one that frees it later sees the bit. The turn
//! is read under the spin lock that the waker takes before it advances the turn, so the sleeper either sees
//! the turn advanced or is woken.

use super::atomic::{AtomicU32, Ordering::*};
use super::{SpinLock, lockdep};
use crate::machine::{Cpu, Rank};
use core::fmt;
use core::marker::PhantomData;

const SHARED: u32 = (1 << 29) - 1;
const SHARERS_WAIT: u32 = 1 << 29;
const ALONE: u32 = 1 << 30;
const UNIQUE_WAITS: u32 = 1 << 31;
const WAITING: u32 = SHARERS_WAIT | UNIQUE_WAITS;

/// What a thread wants of the lock.
#[derive(Clone, Copy)]
enum Want {
    Share,
    Unique,
}

impl Want {
    /// The word after taking the lock, if `word` allows it. `queued` says that the taker has waited its turn.
    fn taken(self, word: u32, queued: bool) -> Option<u32> {
        match self {
            Want::Share if word & ALONE != 0 || (word & UNIQUE_WAITS != 0 && !queued) => None,
            Want::Share => (word & SHARED != SHARED).then_some(word + 1),
            Want::Unique => (word & (SHARED | ALONE) == 0).then_some(word | ALONE),
        }
    }

    const fn bit(self) -> u32 {
        match self {
            Want::Share => SHARERS_WAIT,
            Want::Unique => UNIQUE_WAITS,
        }
    }
}

/// How many wait, guarded by the queue's lock, by [`Want`].
struct Queue {
    waiting: [u32; 2],
}

/// A sleeping reader-writer lock of a fixed rank, guarding what its owner says. Prefers those that want it
/// alone.
pub struct RwLock<C: Cpu, const RANK: u8> {
    /// See the module's table. Taking acquires, giving back releases.
    word: AtomicU32<C>,
    /// Advanced before a side is woken, by [`Want`].
    turn: [AtomicU32<C>; 2],
    queue: SpinLock<Queue, C, { lockdep::RWLOCK_QUEUE.0 }>,
}

/// The lock, shared.
#[must_use = "the lock is given back once this is dropped"]
pub struct RwReadGuard<'a, C: Cpu, const RANK: u8> {
    lock: &'a RwLock<C, RANK>,
    _thread: PhantomData<*const ()>,
}

/// The lock, alone.
#[must_use = "the lock is given back once this is dropped"]
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
            queue: SpinLock::new(Queue { waiting: [0; 2] }),
        }
    }

    /// Shares the lock; sleeps while one has it alone or waits for that.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwReadGuard<'_, C, RANK> {
        lockdep::acquire::<C>(Rank(RANK));
        let word = self.word.load(Relaxed);
        let fast = |next| self.word.compare_exchange(word, next, Acquire, Relaxed).is_ok();
        let taken = Want::Share.taken(word, false).is_some_and(fast);
        if !taken {
            self.wait_for(Want::Share);
        }
        RwReadGuard { lock: self, _thread: PhantomData }
    }

    /// Shares the lock unless one has it alone or waits for that.
    #[inline]
    pub fn try_read(&self) -> Option<RwReadGuard<'_, C, RANK>> {
        self.word.update(Acquire, Relaxed, |word| Want::Share.taken(word, false)).ok()?;
        lockdep::acquire_unordered::<C>(Rank(RANK));
        Some(RwReadGuard { lock: self, _thread: PhantomData })
    }

    /// Takes the lock alone; sleeps while anybody holds it.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwWriteGuard<'_, C, RANK> {
        lockdep::acquire::<C>(Rank(RANK));
        if self.word.compare_exchange(0, ALONE, Acquire, Relaxed).is_err() {
            self.wait_for(Want::Unique);
        }
        RwWriteGuard { lock: self, _thread: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, want: Want) {
        let side = want as usize;
        let mut queued = false;
        loop {
            let mut queue = self.queue.lock();
            if queued {
                queue.waiting[side] -= 1;
                if queue.waiting[side] == 0 {
                    self.word.fetch_and(!want.bit(), Relaxed);
                }
            }
            if self.word.update(Acquire, Relaxed, |word| want.taken(word, queued)).is_ok() {
                return;
            }
            queue.waiting[side] += 1;
            queued = true;
            let turn = self.turn[side].load(Relaxed);
            let word = self.word.fetch_or(want.bit(), Relaxed);
            drop(queue);
            if want.taken(word, true).is_none() {
                self.turn[side].sleep_while(turn);
            }
        }
    }

    /// Called by who made the lock free and saw a waiting bit.
    #[cold]
    #[inline(never)]
    fn wake_next(&self) {
        let queue = self.queue.lock();
        let (side, count) = if queue.waiting[Want::Unique as usize] > 0 {
            (Want::Unique as usize, 1)
        } else {
            (Want::Share as usize, u32::MAX)
        };
        self.turn[side].fetch_add(1, Relaxed);
        drop(queue);
        self.turn[side].wake(count);
    }
}

impl<C: Cpu, const RANK: u8> Drop for RwReadGuard<'_, C, RANK> {
    #[inline]
    fn drop(&mut self) {
        lockdep::release::<C>(Rank(RANK));
        let before = self.lock.word.fetch_sub(1, Release);
        if before & WAITING != 0 && before & SHARED == 1 {
            self.lock.wake_next();
        }
    }
}

impl<C: Cpu, const RANK: u8> Drop for RwWriteGuard<'_, C, RANK> {
    #[inline]
    fn drop(&mut self) {
        lockdep::release::<C>(Rank(RANK));
        let before = self.lock.word.fetch_and(!ALONE, Release);
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
        write!(f, "shared by {}, alone {}", word & SHARED, word & ALONE != 0)
    }
}

impl<C: Cpu, const RANK: u8> fmt::Debug for RwReadGuard<'_, C, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("shared")
    }
}

impl<C: Cpu, const RANK: u8> fmt::Debug for RwWriteGuard<'_, C, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("alone")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestCpu;
    use core::sync::atomic::AtomicU64;
    use std::thread;

    type Lock = RwLock<TestCpu, 0>;

    #[test]
    fn one_alone_or_many_sharing_never_both() {
        let (lock, inside, sum) = (Lock::new(), AtomicU32::<TestCpu>::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for id in 0..4 {
                let (lock, inside, sum) = (&lock, &inside, &sum);
                scope.spawn(move || {
                    TestCpu::become_cpu(id);
                    for round in 0..2_000 {
                        if (round + id) % 3 == 0 {
                            let _writer = lock.write();
                            assert_eq!(inside.fetch_add(1 << 16, Relaxed), 0);
                            sum.store(sum.load(Relaxed) + 1, Relaxed);
                            inside.fetch_sub(1 << 16, Relaxed);
                        } else {
                            let _shared = lock.read();
                            assert!(inside.fetch_add(1, Relaxed) < 1 << 16);
                            inside.fetch_sub(1, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(
            sum.into_inner(),
            (0..4).flat_map(|id| (0..2_000).map(move |r| r + id)).filter(|n| n % 3 == 0).count() as u64
        );
        assert_eq!(lock.word.load(Relaxed), 0);
    }

    #[test]
    fn newcomers_wait_behind_one_that_wants_the_lock_alone() {
        assert_eq!(Want::Share.taken(1 | UNIQUE_WAITS, false), None);
        assert_eq!(Want::Share.taken(1 | UNIQUE_WAITS, true), Some(2 | UNIQUE_WAITS));
        assert_eq!(Want::Unique.taken(SHARERS_WAIT, false), Some(ALONE | SHARERS_WAIT));
        assert_eq!(Want::Unique.taken(1, true), None);
        assert_eq!(Want::Share.taken(SHARED, true), None);
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_rwlock.rs"]
mod loom_tests;
