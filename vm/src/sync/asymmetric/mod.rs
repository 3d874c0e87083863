//! Asymmetric ownership: the owner pays neither a fence nor a read-modify-write; the CPU that takes over from
//! it pays a barrier on all CPUs.
//!
//! Some data and some locks are nearly always used by one CPU: a CPU's cache of free frames, the table locks
//! of a space that runs on one CPU. A lock around them keeps no two CPUs apart, but its atomic exchange waits
//! until the CPU has written out its earlier stores, which in a fault is a page of zeros. So the owner
//! only notes, in a word that no other CPU writes (`OwnerCount`), how many critical sections it is in.
//!
//! ```text
//!   owner (preemption off)               revoker
//!
//!   count := count + 1                   mark := revoked
//!   light fence              ◄────────►  barrier_all
//!   marked? ── yes: count back (release), wait until count = 0 (acquire)
//!      │            go another way       use, in place of the owner
//!     no: use                            mark := the next state (release)
//!   count := count - 1 (release)
//! ```
//!
//! It is Dekker's protocol with the owner's fence moved to the other side, as in biased locks (Kawachiya et
//! al., 2002) and in Linux's users of `membarrier`. Either the owner sees the mark, or the revoker, after its
//! barrier, sees the count and waits: the two fences between store and load forbid that both miss. The
//! release stores of count and mark pair with the other side's acquire loads, so each sees the other's
//! accesses.
//!
//! The count and both sides of the protocol are here, with all of its orderings. Its two users differ in what
//! the mark is:
//!
//! | | [`AsymmetricLocks`] | `AsymmetricCell` |
//! |---|---|---|
//! | owns | all spin locks of a set, a page table's | one value in a CPU's slot: a cache |
//! | the owner | the first CPU that locks, until it releases ownership | the CPU that has the slot |
//! | the mark | the word that names the owner | a flag beside the value |
//! | after a revocation | each lock is taken by its own word | the flag is cleared, the owner goes on |
//! | the owner that sees the mark | waits for the lock itself | goes elsewhere: to the zones |
//! | sections nest | yes: a child's lock under its parent's | no: an inner section is refused |
//!
//! Limits: a revocation costs a barrier on all CPUs and waits for the owner's sections, so a section must be
//! short and must wait for nothing but spin locks whose holders wait for nothing.

mod cell;
mod locks;

pub(crate) use cell::{AsymmetricCell, revoke_all};
pub use locks::AsymmetricLocks;

use super::atomic::{AtomicU32, Ordering::*, light_fence};
use super::wait_until;
use crate::machine::{Cpu, Machine};

/// Number of critical sections that an owner is in. Written by the owner alone, with preemption off, by a
/// load and a store: a handler of interrupts that comes between them leaves no section open (rule 2 of
/// `Cpu`).
#[repr(transparent)]
struct OwnerCount<C: Cpu>(AtomicU32<C>);

impl<C: Cpu> OwnerCount<C> {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The count, for the owner.
    #[inline(always)]
    fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Owner: enters a section, which changes the count from `outside` to `inside`, unless `is_marked` says
    /// that the ownership is revoked. `is_marked` loads the mark with acquire. False: the count is as it was.
    #[inline(always)]
    fn enter(&self, outside: u32, inside: u32, is_marked: impl FnOnce() -> bool) -> bool {
        self.0.store(inside, Relaxed);
        light_fence::<C>();
        let refused = is_marked();
        if refused {
            self.leave(outside);
        }
        !refused
    }

    /// Owner: enters a section inside of another one, for which a revoker waits anyway.
    #[inline(always)]
    fn enter_nested(&self) {
        self.0.store(self.get() + 1, Relaxed);
    }

    /// Owner: leaves a section, which changes the count to `outside`.
    #[inline(always)]
    fn leave(&self, outside: u32) {
        // Release: accesses in the section come before it; pairs with `wait_for_owners`.
        self.0.store(outside, Release);
    }
}

/// Owner: leaves one of the sections counted in `count`, the word of an [`OwnerCount`].
#[inline(always)]
#[track_caller]
pub(super) fn leave_one<C: Cpu>(count: &AtomicU32<C>) {
    // Release: as in `OwnerCount::leave`.
    let order = if mutant!("asymmetric.left-relaxed") { Relaxed } else { Release };
    count.store(count.load(Relaxed) - 1, order);
}

/// Revoker: returns once no owner counted in `counts` is in a section that it entered without seeing the
/// mark. The marks were stored before the call.
fn wait_for_owners<'a, M: Machine>(machine: &M, counts: impl Iterator<Item = &'a OwnerCount<M::Cpu>>) {
    if !mutant!("asymmetric.barrier-skipped") {
        machine.barrier_all();
    }
    for count in counts {
        // Acquire: sees the owner's accesses in its last section.
        wait_until::<M::Cpu>(|| mutant!("asymmetric.owner-not-awaited") || count.0.load(Acquire) == 0);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/misuse.rs"]
mod tests;
