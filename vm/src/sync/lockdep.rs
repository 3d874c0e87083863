//! Lock order, checked: every lock of the library has a rank (the *lock ladder*), and a thread takes locks in
//! ascending rank.
//!
//! docs/design/locking.md lists the data that each lock guards. Debug builds check the order at every lock,
//! by thread: [`Context`](crate::machine::Context) holds the ranks that the thread holds.

#![forbid(unsafe_code)]

use crate::machine::{Cpu, Rank};
use crate::units::Level;

/// An address space: mappings and their index. Sleeps.
pub const SPACE: Rank = Rank(0);
/// An object's page index: installing and removing frames.
pub const OBJECT: Rank = Rank(8);
/// A bucket of a registry: which numbers have a value.
pub const REGISTRY: Rank = Rank(10);
/// A tree of spaces: its links, and which spaces live.
pub const ANON_TREE: Rank = Rank(12);
/// A table page of `level`: its entries. A parent is taken before its child.
pub const fn table(level: Level) -> Rank {
    Rank(20 - level as u8)
}
/// What the workers of an edit or of a pin of a range divide, or have unhooked. Its holder takes no other
/// lock.
pub const GATHER: Rank = Rank(24);
/// The right to revoke other CPUs' caches.
pub const DRAIN: Rank = Rank(26);
/// The slabs with free objects of a slab pool.
pub const SLAB: Rank = Rank(28);
/// What the hugetlb pool of one size has.
pub const HUGETLB: Rank = Rank(30);
/// The right to take frames of several regions of a zone as one.
pub const ZONE_RUN: Rank = Rank(31);
/// A region's free blocks.
pub const ZONE: Rank = Rank(32);
/// RCU's list of orphaned garbage.
pub const RCU: Rank = Rank(36);
/// The waiters of a sleeping lock.
pub const RWLOCK_QUEUE: Rank = Rank(40);
/// The error of a job; taken to store it, whatever other locks the worker holds.
pub const JOB: Rank = Rank(42);
/// The records of an ordered queue.
pub const ORDER: Rank = Rank(43);
/// A CPU's queue of flush requests. Taken with interrupts off, for a few instructions, and by interrupt
/// handlers: so it is the last, because an interrupt may come while any other lock is held.
pub const MAILBOX: Rank = Rank(44);

/// Checks that a lock of `rank` may be waited for, and notes it as held. Does nothing in release builds.
#[inline(always)]
pub(crate) fn acquire<C: Cpu>(rank: Rank) {
    if cfg!(debug_assertions) {
        C::with_context(|context| {
            assert!(
                context.may_acquire(rank),
                "lock ladder: rank {} taken while ranks {:#b} are held",
                rank.0,
                context.held()
            );
            context.note_acquired(rank);
        });
    }
}

/// Notes a lock taken without waiting, which may break the order.
#[inline(always)]
pub(crate) fn acquire_unordered<C: Cpu>(rank: Rank) {
    if cfg!(debug_assertions) {
        C::with_context(|context| context.note_acquired(rank));
    }
}

/// Notes that a lock of `rank` is released.
#[inline(always)]
pub(crate) fn release<C: Cpu>(rank: Rank) {
    if cfg!(debug_assertions) {
        C::with_context(|context| context.note_released(rank));
    }
}
