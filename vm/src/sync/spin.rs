//! Locks that never sleep.
//!
//! One word: 0 free, 1 held, 2 held and waited for. Preemption is off while it is held, interrupts stay as
//! they are: no lock of the library is taken by an interrupt handler except the mailbox's, which is taken
//! with interrupts off.
//!
//! A waiter reads until the word is free and only then takes it, and calls `relax`, so that it handles flush
//! requests: the holder of the lock may be waiting for this CPU to flush. The word says that there is one. A
//! holder that takes the lock again and again looks at that ([`RawGuard::is_contended`]): else it would be
//! faster each time than a waiter on another CPU.

use super::atomic::{AtomicU32, Ordering::*};
use super::{PreemptGuard, asymmetric, lockdep};
use crate::machine::{Cpu, Rank};
use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// A spin lock without data. The structure that contains it says what it guards: entries of a table, fields
/// of a record. All-zero is free.
#[repr(transparent)]
pub struct RawSpinLock<C: Cpu> {
    /// 0 free, 1 held, 2 held and waited for. The acquiring exchange pairs with the releasing store in
    /// `release_word`.
    word: AtomicU32<C>,
}

/// A [`RawSpinLock`] held; dropping releases it, on the thread that has taken it:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// fn check<C: interleaf::machine::Cpu>() { is_send::<interleaf::sync::RawGuard<'static, C>>(); }
/// ```
#[must_use = "the lock is free again once this is dropped"]
pub struct RawGuard<'a, C: Cpu> {
    /// The lock's word, or the owner's count of locks if it is [`OF_OWNER`].
    word: &'a AtomicU32<C>,
    /// For lockdep, and whether the guard is [`OF_OWNER`]. A whole word: parts of words are slow to move.
    rank: usize,
    /// Dropped last.
    _preempt_off: PreemptGuard<C>,
}

/// The word of a lock that is held, and that another CPU waits for.
const CONTENDED: u32 = 2;

/// Added to the rank of a lock that the owner of a set holds without having taken it; see `asymmetric`.
const OF_OWNER: usize = 1 << 8;

impl<'a, C: Cpu> RawGuard<'a, C> {
    /// For a lock that the owner of its set has counted in `count` instead of taking it.
    #[inline(always)]
    pub(super) fn of_owner(count: &'a AtomicU32<C>, rank: Rank, preempt_off: PreemptGuard<C>) -> Self {
        Self { word: count, rank: usize::from(rank.0) + OF_OWNER, _preempt_off: preempt_off }
    }

    /// Whether another CPU waits for the lock. A hint: never where the lock is held by being counted.
    pub(crate) fn is_contended(&self) -> bool {
        self.rank < OF_OWNER && self.word.load(Relaxed) == CONTENDED
    }

    /// Whether the lock is held by being counted in `count`.
    #[inline(always)]
    pub(super) fn is_of_owner(&self, count: &AtomicU32<C>) -> bool {
        core::ptr::eq(self.word, count)
    }
}

impl<C: Cpu> RawSpinLock<C> {
    /// A free lock.
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(0) }
    }

    /// The lock that lives in `word`, which must be 0 (free) while the lock is not held.
    pub fn from_word(word: &AtomicU32<C>) -> &Self {
        // SAFETY: the lock is a transparent wrapper of the atomic.
        unsafe { &*(&raw const *word).cast::<Self>() }
    }

    /// Waits for the lock. Preemption is off until the guard is dropped.
    #[inline]
    #[track_caller]
    pub fn lock(&self, rank: Rank) -> RawGuard<'_, C> {
        lockdep::acquire::<C>(rank);
        self.acquire(rank, PreemptGuard::new())
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self, rank: Rank) -> Option<RawGuard<'_, C>> {
        let guard = self.try_acquire(rank, PreemptGuard::new())?;
        lockdep::acquire_unordered::<C>(rank);
        Some(guard)
    }

    #[inline(always)]
    #[track_caller]
    fn take_word(&self) {
        while !self.try_take_word() {
            if cfg!(loom) {
                // The load below orders nothing, and in a model it may return an old value for ever.
                C::relax();
            } else {
                while !self.is_free_or_noted() {
                    C::relax();
                }
            }
        }
    }

    /// Whether the lock is free. If not, its word says from now on that another CPU waits.
    #[inline(always)]
    #[track_caller]
    fn is_free_or_noted(&self) -> bool {
        let word = self.word.load(Relaxed);
        if word == 1 {
            // Refused: it is free, or another waiter has noted it.
            let _noted = self.word.compare_exchange(1, CONTENDED, Relaxed, Relaxed);
        }
        word == 0
    }

    #[inline(always)]
    #[track_caller]
    fn try_take_word(&self) -> bool {
        let order = if mutant!("spin.taken-relaxed") { Relaxed } else { Acquire };
        self.word.compare_exchange(0, 1, order, Relaxed).is_ok()
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn acquire(&self, rank: Rank, preempt_off: PreemptGuard<C>) -> RawGuard<'_, C> {
        self.take_word();
        RawGuard { word: &self.word, rank: rank.0.into(), _preempt_off: preempt_off }
    }

    #[inline(always)]
    #[track_caller]
    fn try_acquire(&self, rank: Rank, preempt_off: PreemptGuard<C>) -> Option<RawGuard<'_, C>> {
        debug_assert!(rank <= Rank::MAX, "lock ladder: no rank {}", rank.0);
        // Made only once the word is taken: dropping a guard that was made too early would release the lock
        // of another holder.
        let guard = || RawGuard { word: &self.word, rank: rank.0.into(), _preempt_off: preempt_off };
        self.try_take_word().then(guard)
    }

    /// Whether the lock is held; stale at once.
    pub fn is_held_racy(&self) -> bool {
        self.word.load(Relaxed) != 0
    }
}

impl<C: Cpu> Default for RawSpinLock<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cpu> Drop for RawGuard<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.rank >= OF_OWNER {
            asymmetric::leave_one(self.word);
        } else {
            release_word(self.word);
        }
        lockdep::release::<C>(Rank(self.rank as u8));
    }
}

/// Release: accesses under the lock come before it.
#[inline(always)]
#[track_caller]
fn release_word<C: Cpu>(word: &AtomicU32<C>) {
    word.store(0, if mutant!("spin.released-relaxed") { Relaxed } else { Release });
}

/// A value guarded by a spin lock of a fixed rank.
pub struct SpinLock<T, C: Cpu, const RANK: u8> {
    lock: RawSpinLock<C>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock lets one thread at a time reach the value.
unsafe impl<T: Send, C: Cpu, const RANK: u8> Sync for SpinLock<T, C, RANK> {}
// SAFETY: moving the lock moves the value.
unsafe impl<T: Send, C: Cpu, const RANK: u8> Send for SpinLock<T, C, RANK> {}

/// A [`SpinLock`] held, by the thread that has taken it:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// fn check<C: interleaf::machine::Cpu>() { is_send::<interleaf::sync::SpinGuard<'static, u32, C>>(); }
/// ```
#[must_use = "the lock is free again once this is dropped"]
pub struct SpinGuard<'a, T, C: Cpu> {
    value: &'a UnsafeCell<T>,
    _held: RawGuard<'a, C>,
}

impl<T, C: Cpu, const RANK: u8> SpinLock<T, C, RANK> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { lock: RawSpinLock::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> SpinGuard<'_, T, C> {
        SpinGuard { _held: self.lock.lock(Rank(RANK)), value: &self.value }
    }

    /// Takes the lock if it is free.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T, C>> {
        Some(SpinGuard { _held: self.lock.try_lock(Rank(RANK))?, value: &self.value })
    }

    /// The value: `&mut` says that no other reference to the lock exists.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T, C: Cpu> Deref for SpinGuard<'_, T, C> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, so no other thread reaches the value while `self` is borrowed.
        unsafe { &*self.value.get() }
    }
}

impl<T, C: Cpu> DerefMut for SpinGuard<'_, T, C> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and `&mut self` is the only way through it.
        unsafe { &mut *self.value.get() }
    }
}

impl<C: Cpu> fmt::Debug for RawSpinLock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_held_racy() { "held" } else { "free" })
    }
}

impl<C: Cpu> fmt::Debug for RawGuard<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held, rank {}", self.rank as u8)
    }
}

impl<T: fmt::Debug, C: Cpu, const RANK: u8> fmt::Debug for SpinLock<T, C, RANK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").field("lock", &self.lock).finish_non_exhaustive()
    }
}

impl<T: fmt::Debug, C: Cpu> fmt::Debug for SpinGuard<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_spin.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "tests/spin.rs"]
mod tests;
