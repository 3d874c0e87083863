//! Floor 2: the one door to shared memory; locks, RCU and per-CPU data behind it.
//!
//! Everything that several CPUs share goes through [`atomic`] (words) or [`Plain`] (data that a lock or a CPU
//! owns): each access is reported to [`Cpu::access`], so that the lab can record which lines a fault writes,
//! or choose a different CPU at every access. Without an observer the door is plain instructions.
//!
//! | here | what for |
//! |---|---|
//! | [`atomic`] | atomics generic over `C: Cpu`, fences |
//! | [`Plain`] | a field of plain data under a lock |
//! | [`RawSpinLock`], [`SpinLock`] | locks that never sleep |
//! | [`asymmetric`] | ownership without a fence: spin locks of one CPU, caches that others may revoke |
//! | `AtomicCpuMask` | a set of CPUs that they change themselves |
//! | [`RwLock`] | a sleeping reader-writer lock |
//! | [`lockdep`] | the lock ladder: ranks of all locks, checked in debug builds |
//! | [`PerCpu`], [`CpuLocal`] | data of one CPU |
//! | [`Carve`] | memory that is allocated at start |
//! | [`handler`] | the functions that a machine calls: for interrupts, for helpers |
//! | [`CacheAligned`] | padding against false sharing |
//! | [`Rcu`], [`RcuSlot`] | lockless readers, and garbage that waits for them |
//! | [`LastHit`], [`HitSource`] | the result of a CPU's last lookup under RCU |
//! | [`CpuNumbers`] | numbers of spaces and of private copies, each given once, by each CPU from its own |
//! | [`UniqueId`] | which RCU a guard is of, which memory an object is of |
//! | [`wait_until`] | the one wait loop |
//! | `Retry`, `Progress` | a retry that depends on another party, and what ends it |
//!
//! Under `cfg(loom)` an atomic keeps its layout and finds loom's atomic by its address (see `shadow`),
//! because entries and records live in raw memory that loom cannot construct.

pub mod asymmetric;
pub mod atomic;
mod cache_aligned;
mod carve;
mod cpu_mask;
mod cpu_numbers;
pub mod handler;
mod last_hit;
pub mod lockdep;
mod percpu;
mod plain;
mod progress;
pub mod rcu;
mod rwlock;
#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code))]
mod shadow;
#[cfg(loom)]
pub(crate) mod single_thread;
mod spin;
#[cfg(any(test, loom))]
pub mod testing;
mod unique_id;

pub use asymmetric::AsymmetricLocks;
pub use cache_aligned::CacheAligned;
pub use carve::{Carve, MachineMemory, carve_slice, carve_value, fill, fill_some};
pub(crate) use cpu_mask::AtomicCpuMask;
pub use cpu_numbers::CpuNumbers;
pub use handler::{Event, Handler, RegisterError, Registration};
pub use last_hit::{HitSource, HitVersion, LastHit, LastHits};
pub use percpu::{CpuGuard, CpuLocal, CpuRef, PerCpu, PreemptGuard, PreemptOff, with_interrupts_off};
pub use plain::Plain;
#[cfg(all(test, not(loom)))]
pub(crate) use progress::withhold;
pub(crate) use progress::{NoProgress, Progress, Retry};
pub use rcu::{
    DeferredFree, GarbageLimits, GarbageStats, HandlerSection, Rcu, RcuHead, RcuList, RcuSlot, ReadGuard,
};
pub use rwlock::{LongestWaits, RwLock, RwReadGuard, RwWriteGuard};
#[cfg(all(test, loom))]
pub(crate) use shadow::refill_zeros;
#[cfg(loom)]
pub(crate) use shadow::{forget, forget_value, privately};
pub use spin::{RawGuard, RawSpinLock, SpinGuard, SpinLock};
pub use unique_id::UniqueId;

use crate::machine::Cpu;

/// Spins until `done` returns true, and handles other CPUs' interrupts meanwhile.
#[inline]
pub fn wait_until<C: Cpu>(mut done: impl FnMut() -> bool) {
    while !done() {
        C::relax();
    }
}
