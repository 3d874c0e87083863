//! A set of spin locks that one CPU takes without an atomic instruction, until a second one wants any of
//! them.
//!
//! The lock of a table page keeps faults of several CPUs apart. Most spaces run on one CPU at a time, so the
//! first CPU that takes a lock of the set becomes the owner of all of them, and from then on only counts how
//! many it holds.
//!
//! ```text
//!   no owner ──first to lock──► owner a ──CPU b locks──► revoked ───────────► unowned: each lock
//!      ▲                           │                     b: barrier on all    by its own word
//!      └── a stops running it ─────┘                        CPUs, waits until
//!                                                           a holds none
//! ```
//!
//! *Unowned* is final: nothing counts which CPU holds a lock by its own word. A CPU that
//! stops running the space releases the ownership instead, so that a program that moves between CPUs keeps
//! it; one with threads on several CPUs loses it once, for one barrier.
//!
//! The subtle case: a second lock while the first is held, a child's under its parent's. The ownership may
//! have been revoked in between, and the revoker b waits for the first; so the second must not wait for b. It
//! is taken as the first was ([`lock_below`](AsymmetricLocks::lock_below)): b waits for both.

use super::{OwnerCount, wait_for_owners};
use crate::machine::{Context, Cpu, Machine, Rank};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{PreemptGuard, RawGuard, RawSpinLock, lockdep, wait_until};
use core::fmt;

/// No CPU owns the locks; those that did have released them.
const NO_OWNER: u64 = 0;
/// Every lock is taken by its own word.
const UNOWNED: u64 = u64::MAX;
/// The ownership is being revoked.
const REVOKED: u64 = u64::MAX - 1;

/// The ownership of a set of spin locks.
pub struct AsymmetricLocks<C: Cpu> {
    /// [`NO_OWNER`], a CPU (see [`this_cpu`]), [`REVOKED`], or [`UNOWNED`]. Anything but the owner's own
    /// value is the mark that the owner looks for.
    owner: AtomicU64<C>,
    /// Number of the locks that the owner holds.
    held: OwnerCount<C>,
}

impl<C: Cpu> AsymmetricLocks<C> {
    /// For locks that no CPU has taken yet.
    pub const fn new() -> Self {
        Self { owner: AtomicU64::new(NO_OWNER), held: OwnerCount::new() }
    }

    /// For locks that every CPU takes by their words, always.
    pub const fn unowned() -> Self {
        Self { owner: AtomicU64::new(UNOWNED), held: OwnerCount::new() }
    }

    /// Waits for `lock`, which is one of the set. Preemption is off until the guard is dropped.
    ///
    /// Revokes the ownership of another CPU if there is one: a barrier on all CPUs, once.
    ///
    /// # Panics
    /// Where a CPU of another machine is the owner: it is not reached by the barrier.
    /// If this CPU is the owner and holds one of the locks: another one is taken by
    /// [`lock_below`](Self::lock_below).
    #[inline(always)]
    #[track_caller]
    pub fn lock<'a, M: Machine<Cpu = C>>(
        &'a self,
        lock: &'a RawSpinLock<C>,
        rank: Rank,
        machine: &M,
    ) -> RawGuard<'a, C> {
        lockdep::acquire::<C>(rank);
        let preempt_off = PreemptGuard::new();
        let this_cpu = this_cpu(&preempt_off);
        // Acquire: pairs with the release in `revoke`, where the locks are unowned since.
        let owner = self.owner.load(Acquire);
        if owner == this_cpu && self.enter(this_cpu, rank) {
            return RawGuard::of_owner(&self.held.0, rank, preempt_off);
        }
        self.lock_slow((this_cpu, owner), lock, rank, machine, preempt_off)
    }

    /// Waits for `lock`, which is one of the set, while `above`, another one of it, is held.
    ///
    /// # Panics
    /// If `above` is not one of the set, and its locks are not unowned.
    #[inline(always)]
    #[track_caller]
    pub fn lock_below<'a>(
        &'a self,
        above: &RawGuard<'a, C>,
        lock: &'a RawSpinLock<C>,
        rank: Rank,
    ) -> RawGuard<'a, C> {
        let preempt_off = PreemptGuard::new();
        // A guard stays on the thread that took it, with preemption off: so this is the owner's CPU.
        if above.is_of_owner(&self.held.0) {
            lockdep::acquire::<C>(rank);
            self.held.enter_nested();
            return RawGuard::of_owner(&self.held.0, rank, preempt_off);
        }
        // Relaxed: a lock of the set that was taken by its word was so after its holder had acquired this.
        let is_unowned = self.owner.load(Relaxed) == UNOWNED || mutant!("asymmetric.below-foreign-lock");
        assert!(is_unowned, "the lock above is not one of the set");
        lockdep::acquire::<C>(rank);
        lock.acquire(rank, preempt_off)
    }

    /// Releases this CPU's ownership, if it has it and holds none of the locks: another CPU may become the
    /// owner.
    ///
    /// # Panics
    /// In a handler of interrupts: the code that it interrupts may be about to count a lock that it takes as
    /// the owner, in the word that is the next owner's then.
    #[inline]
    pub fn release_ownership(&self) {
        let in_handler = C::with_context(Context::in_handler);
        assert!(!in_handler || mutant!("asymmetric.released-by-handler"), "a handler releases table locks");
        let preempt_off = PreemptGuard::<C>::new();
        let this_cpu = this_cpu(&preempt_off);
        let is_idle = || self.held.get() == 0 || mutant!("asymmetric.released-while-held");
        if self.owner.load(Relaxed) == this_cpu && is_idle() {
            // Release: pairs with the next owner's exchange. It fails if the ownership is being revoked.
            let order = if mutant!("asymmetric.given-back-relaxed") { Relaxed } else { Release };
            let _released = self.owner.compare_exchange(this_cpu, NO_OWNER, order, Relaxed);
        }
    }

    /// Enters a section of `this_cpu`, which was the owner a moment ago; false if it no longer is.
    #[inline(always)]
    #[track_caller]
    fn enter(&self, this_cpu: u64, rank: Rank) -> bool {
        // The owner's locks have no words: only this keeps it from taking one twice.
        if self.held.get() != 0 && !mutant!("asymmetric.owner-locks-twice") {
            already_held::<C>(rank);
        }
        // Acquire: the data that the lock guards is read after this.
        let is_marked = || self.owner.load(Acquire) != this_cpu && !mutant!("asymmetric.owner-not-rechecked");
        self.held.enter(0, 1, is_marked)
    }

    /// `owner` was read by `lock`, with acquire: where the locks are unowned, as in a shared space, that word
    /// is read once.
    #[inline(never)]
    #[track_caller]
    fn lock_slow<'a, M: Machine<Cpu = C>>(
        &'a self,
        (this_cpu, mut owner): (u64, u64),
        lock: &'a RawSpinLock<C>,
        rank: Rank,
        machine: &M,
        preempt_off: PreemptGuard<C>,
    ) -> RawGuard<'a, C> {
        loop {
            match owner {
                UNOWNED => return lock.acquire(rank, preempt_off),
                NO_OWNER => {
                    // Acquire: pairs with the release in `release_ownership`.
                    let _first = self.owner.compare_exchange(NO_OWNER, this_cpu, Acquire, Relaxed);
                }
                REVOKED => wait_until::<C>(|| self.owner.load(Relaxed) != REVOKED),
                owner if owner == this_cpu => {
                    if self.enter(this_cpu, rank) {
                        return RawGuard::of_owner(&self.held.0, rank, preempt_off);
                    }
                }
                owner if owner >> 32 != this_cpu >> 32 => foreign_owner::<C>(rank),
                owner => self.revoke(owner, machine),
            }
            // Acquire: as in `lock`.
            owner = self.owner.load(Acquire);
        }
    }

    /// Revokes the ownership of another CPU, unless a third CPU does.
    #[cold]
    fn revoke<M: Machine<Cpu = C>>(&self, owner: u64, machine: &M) {
        if self.owner.compare_exchange(owner, REVOKED, AcqRel, Relaxed).is_ok() {
            wait_for_owners(machine, core::iter::once(&self.held));
            self.owner.store(UNOWNED, Release);
        }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn already_held<C: Cpu>(rank: Rank) -> ! {
    lockdep::release::<C>(rank);
    panic!("a lock of the set is held by this CPU already")
}

#[cold]
#[inline(never)]
#[track_caller]
fn foreign_owner<C: Cpu>(rank: Rank) -> ! {
    lockdep::release::<C>(rank);
    panic!("locks that a CPU of another machine owns, or, on a platform of one CPU, another thread")
}

/// This CPU, as an owner: its number and 1 in the lower half, and its machine's in the upper half where there
/// are several.
#[inline(always)]
fn this_cpu<C: Cpu>(_preempt_off: &PreemptGuard<C>) -> u64 {
    let is_named = C::SEVERAL_MACHINES && !mutant!("asymmetric.machine-not-named");
    let machine = if is_named { u64::from(C::machine().get()) << 32 } else { 0 };
    machine | (u64::from(C::id().0) + 1)
}

impl<C: Cpu> Default for AsymmetricLocks<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cpu> fmt::Debug for AsymmetricLocks<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner.load(Relaxed) {
            NO_OWNER => f.write_str("locks without an owner yet"),
            REVOKED => f.write_str("locks being revoked"),
            UNOWNED => f.write_str("unowned locks"),
            owner => write!(f, "locks owned by CPU {}", owner as u32 - 1),
        }
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_locks.rs"]
mod loom_tests;
