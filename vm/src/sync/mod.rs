//! Floor 2: the one door to shared memory, and what is built on it.
//!
//! Everything that several CPUs share goes through [`atomic`] (words) or [`Plain`] (data that a lock or a CPU
//! owns): each access is shown to [`Cpu::access`], so that the lab can record which lines a fault writes, or
//! choose a different CPU at every access. Where nobody observes, the door is plain instructions.
//!
//! | here | what for |
//! |---|---|
//! | [`atomic`] | atomics generic over `C: Cpu`, fences |
//! | [`Plain`] | a field of plain data under a lock |
//! | [`RawSpinLock`], [`SpinLock`] | locks that never sleep |
//! | [`Bias`] | spin locks that one CPU takes for nothing |
//! | [`ShareLock`] | a sleeping reader-writer lock |
//! | [`ladder`] | the ranks of all locks |
//! | [`PerCpu`], [`Owned`] | data of one CPU |
//! | [`Installed`] | what a CPU does when another interrupts it |
//! | [`Enlisted`] | the program of the machine's helpers |
//! | [`Tray`] | values that several put in and one takes out |
//! | [`Rcu`], [`RcuSlot`] | lockless readers, and garbage that waits for them |
//! | [`RangeTree`], [`RangeIndex`] | an index of disjoint ranges, looked up without a lock |
//! | [`wait_until`] | the one wait loop |
//!
//! Under `cfg(loom)` an atomic keeps its layout and finds loom's atomic by its address (see `shadow`),
//! because entries and records live in raw memory that loom cannot construct.

mod answer;
pub mod atomic;
mod bias;
#[cfg(all(test, loom))]
mod bias_loom_tests;
mod enlist;
pub mod ladder;
mod per_cpu;
mod plain;
pub mod rcu;
#[cfg(loom)]
mod shadow;
mod share;
mod slot;
mod spin;
#[cfg(any(test, loom))]
pub mod testing;
mod tray;
pub mod tree;

pub use answer::{Installed, Respond};
pub use bias::Bias;
pub use enlist::{Enlisted, Help};
pub use per_cpu::{Carve, Mine, Own, Owned, PerCpu, Pinned};
pub use plain::Plain;
pub use rcu::{List as RcuList, Rcu, RcuHead, ReadGuard, Reclaim};
#[cfg(loom)]
pub(crate) use shadow::{forget, restock};
pub use share::{ShareLock, SharedGuard, UniqueGuard};
pub use slot::RcuSlot;
pub use spin::{RawGuard, RawSpinLock, SpinGuard, SpinLock};
pub use tray::Tray;
pub use tree::{IndexMemory, NodeMemory, RangeIndex, RangeTree, Span};

use crate::machine::Cpu;

/// Spins until `done` says so, answering other CPUs meanwhile. Every wait loop of the library is this one.
#[inline]
pub fn wait_until<C: Cpu>(mut done: impl FnMut() -> bool) {
    while !done() {
        C::relax();
    }
}
