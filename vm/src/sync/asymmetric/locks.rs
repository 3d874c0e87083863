//! Many spin locks that one CPU takes for nothing, until a second one wants any of them.
//!
//! The lock of a table page keeps faults of several CPUs apart. Most spaces run on one CPU at a time, and
//! there the exchange that takes it keeps nobody apart; but it waits until the CPU has written out what it
//! stored before, which in a fault is a page of zeros. So all locks of a page table are *biased* together:
//! the first CPU that takes one becomes their owner, and from then on notes only how many it is inside of, in
//! a word that nobody else writes.
//!
//! ```text
//!   owner = nobody ──first to lock──► CPU a ──CPU b locks──► being taken away ──► all: every lock by its own word
//!        ▲                             │                     b: barrier_all,
//!        └──── a stops running it ─────┘                        wait until a is inside none
//! ```
//!
//! ```text
//!   a, the owner (preemption off)       b, the second
//!
//!   inside := inside + 1                owner: a -> being taken away
//!   light fence            ◄─────────►  barrier_all
//!   owner still a? ── no: inside back,  wait until inside = 0
//!      │               wait for `all`   owner := all (release)
//!     yes: it has the lock
//!   inside := inside - 1 (release)
//! ```
//!
//! It is the protocol of Dekker and of biased locks (Kawachiya et al., 2002), with the owner's fence moved to
//! the other side: either a sees that the bias is taken away, or b, after its barrier, sees a inside and
//! waits. The release stores of `inside` and `owner` pair with the other side's acquire loads, so what was
//! done under an elided lock is seen under a real one.
//!
//! From *all* there is no way back: who holds a lock by its own word is counted nowhere. A CPU that stops
//! running the space gives the bias back instead, so that a program that moves between CPUs keeps it; one
//! with threads on several CPUs loses it once, for one barrier.
//!
//! The subtle case: a second lock while the first is held, a child's under its parent's. The bias may have
//! been asked for in between, and b waits for the first; so the second must not wait for b. It is taken as
//! the first was ([`lock_below`](AsymmetricLocks::lock_below)): b waits for both.

use crate::machine::{Cpu, Machine, Rank};
use crate::sync::atomic::{AtomicU32, Ordering::*, light_fence};
use crate::sync::{RawGuard, RawSpinLock, lockdep, wait_until};
use core::fmt;

/// Nobody owns the locks; so far each CPU that did has given them back.
const NOBODY: u32 = 0;
/// Every lock is taken by its own word.
const ALL: u32 = u32::MAX;
/// The bias is being taken away from its owner.
const REVOKED: u32 = u32::MAX - 1;

/// Who takes a set of spin locks for nothing.
pub struct AsymmetricLocks<C: Cpu> {
    /// [`NOBODY`], a CPU's number and 1, [`REVOKED`], or [`ALL`].
    owner: AtomicU32<C>,
    /// How many of the locks the owner holds. Written by the owner alone.
    inside: AtomicU32<C>,
}

impl<C: Cpu> AsymmetricLocks<C> {
    /// For locks that none has taken yet.
    pub const fn new() -> Self {
        Self { owner: AtomicU32::new(NOBODY), inside: AtomicU32::new(0) }
    }

    /// For locks that every CPU takes by their words, always.
    pub const fn none() -> Self {
        Self { owner: AtomicU32::new(ALL), inside: AtomicU32::new(0) }
    }

    /// Waits for `lock`, which is one of the set. Preemption is off until the guard is dropped.
    ///
    /// Takes away the bias of another CPU where it has one: a barrier on all CPUs, once.
    #[inline(always)]
    #[track_caller]
    pub fn lock<'a, M: Machine<Cpu = C>>(
        &'a self,
        lock: &'a RawSpinLock<C>,
        rank: Rank,
        machine: &M,
    ) -> RawGuard<'a, C> {
        lockdep::acquire::<C>(rank);
        C::preempt_off();
        let mine = me::<C>();
        // Relaxed: `enter` looks again.
        if self.owner.load(Relaxed) == mine && self.enter(mine) {
            return RawGuard::counted(&self.inside, rank);
        }
        self.lock_by_word(mine, lock, rank, machine)
    }

    /// Waits for `lock`, which is one of the set, while `held`, another one of it, is held.
    #[inline(always)]
    #[track_caller]
    pub fn lock_below<'a>(
        &'a self,
        held: &RawGuard<'a, C>,
        lock: &'a RawSpinLock<C>,
        rank: Rank,
    ) -> RawGuard<'a, C> {
        lockdep::acquire::<C>(rank);
        C::preempt_off();
        if held.counts_in(&self.inside) {
            self.inside.store(self.inside.load(Relaxed) + 1, Relaxed);
            return RawGuard::counted(&self.inside, rank);
        }
        lock.acquire(rank)
    }

    /// This CPU, which holds none of the locks, will not take any soon: another one may own them.
    #[inline]
    pub fn give_back(&self) {
        let mine = me::<C>();
        if self.owner.load(Relaxed) == mine {
            // Release: pairs with the next owner's exchange. It fails where the bias is being taken away.
            let order = if mutant!("asymmetric.given-back-relaxed") { Relaxed } else { Release };
            let _given = self.owner.compare_exchange(mine, NOBODY, order, Relaxed);
        }
    }

    /// Counts this CPU, `mine`, which was the owner a moment ago, in; unless it is no longer.
    #[inline(always)]
    fn enter(&self, mine: u32) -> bool {
        let inside = self.inside.load(Relaxed);
        self.inside.store(inside + 1, Relaxed);
        light_fence::<C>();
        // Acquire: what the lock guards is looked at after this.
        let stays = mutant!("asymmetric.owner-not-rechecked") || self.owner.load(Acquire) == mine;
        if !stays {
            self.inside.store(inside, Release);
        }
        stays
    }

    #[inline(never)]
    #[track_caller]
    fn lock_by_word<'a, M: Machine<Cpu = C>>(
        &'a self,
        mine: u32,
        lock: &'a RawSpinLock<C>,
        rank: Rank,
        machine: &M,
    ) -> RawGuard<'a, C> {
        loop {
            // Acquire: pairs with the release in `revoke`.
            match self.owner.load(Acquire) {
                ALL => return lock.acquire(rank),
                NOBODY => {
                    // Acquire: pairs with the release of who gave it back.
                    let _first = self.owner.compare_exchange(NOBODY, mine, Acquire, Relaxed);
                }
                REVOKED => wait_until::<C>(|| self.owner.load(Relaxed) != REVOKED),
                owner if owner == mine => {
                    if self.enter(mine) {
                        return RawGuard::counted(&self.inside, rank);
                    }
                }
                owner => self.revoke(owner, machine),
            }
        }
    }

    /// Takes the bias away from another CPU, unless somebody else does.
    #[cold]
    fn revoke<M: Machine<Cpu = C>>(&self, owner: u32, machine: &M) {
        if self.owner.compare_exchange(owner, REVOKED, AcqRel, Relaxed).is_ok() {
            if !mutant!("asymmetric.barrier-skipped") {
                machine.barrier_all();
            }
            // Acquire: what was done under the owner's last lock.
            if !mutant!("asymmetric.owner-not-awaited") {
                wait_until::<C>(|| self.inside.load(Acquire) == 0);
            }
            self.owner.store(ALL, Release);
        }
    }
}

/// This CPU, as an owner. Preemption is off.
#[inline(always)]
fn me<C: Cpu>() -> u32 {
    C::id().0 + 1
}

impl<C: Cpu> Default for AsymmetricLocks<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Cpu> fmt::Debug for AsymmetricLocks<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owner.load(Relaxed) {
            NOBODY => f.write_str("biased to nobody yet"),
            REVOKED => f.write_str("losing its bias"),
            ALL => f.write_str("not biased"),
            owner => write!(f, "biased to CPU {}", owner - 1),
        }
    }
}
