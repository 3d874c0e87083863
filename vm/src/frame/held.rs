//! Values of a registry that are held: the last hold to go ends its value.
//!
//! ```text
//!   number ─ registry ─► count of holds ── not 0: one more ──► Hold ──► the value
//!            read section       │
//!                               └───────── 0: it ends, or has ended: refused
//! ```
//!
//! A value is reached by its number as any of a [`Registry`], and used through a [`Hold`] alone, which
//! outlives the read section. The hold that takes the count to 0 drops the value, under no lock of the
//! registry: readers that still find the entry are refused, without waiting, and touch no more than the
//! count. Then the entry leaves the registry, and its memory is freed after a grace period.
//!
//! The count never leaves 0 again, so a value ends once. (Linux: `mmget_not_zero`, `mmput`.)

use super::{Memory, Registry};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::{Rcu, ReadGuard};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::ManuallyDrop;
use core::num::NonZeroU64;
use core::ops::Deref;
use core::ptr::NonNull;

/// Values with counted holds, by number. Made at start, in memory that is never freed.
pub(crate) struct HeldRegistry<'m, V, M: Machine> {
    registry: Registry<'m, HeldValue<V, M::Cpu>, M>,
    memory: &'m Memory<'m, M>,
    rcu: &'m Rcu<'m, M::Cpu>,
}

/// A value with the count of its holds.
struct HeldValue<V, C: Cpu> {
    /// Each hold is counted once; 0: the value ends, or has ended. The decrement of one hold releases what
    /// was done through it to the decrement that finds itself the last, which acquires.
    holds: AtomicU32<C>,
    /// Written by the hold that took the count to 0 alone, which drops it.
    value: UnsafeCell<ManuallyDrop<V>>,
}

/// The most holds of a value.
const MAX_HOLDS: u32 = u32::MAX / 2;

// SAFETY: threads share references to the value while it has holds, hence `Sync`; any of them may be the one
// that drops it, alone by then, hence `Send`.
unsafe impl<V: Send + Sync, C: Cpu> Sync for HeldValue<V, C> {}

/// One of the counted holds of a value, which is not dropped as long as there is one. Dropping the last one
/// drops the value, as the value's type wants that to be done.
pub(crate) struct Hold<'r, 'm, V: Send + Sync, M: Machine> {
    registry: &'r HeldRegistry<'m, V, M>,
    number: NonZeroU64,
    /// Invariant: it lies in an entry of the registry, of that number, and is counted for this hold.
    held: NonNull<HeldValue<V, M::Cpu>>,
}

// SAFETY: a hold is a shared reference to the value and, as the last one, its owner.
unsafe impl<V: Send + Sync, M: Machine> Send for Hold<'_, '_, V, M> {}
// SAFETY: as above; through a shared hold another one can be had.
unsafe impl<V: Send + Sync, M: Machine> Sync for Hold<'_, '_, V, M> {}

impl<V, C: Cpu> HeldValue<V, C> {
    /// Counts a hold more. `false`, and no change, where there is none any more, or as many as can be
    /// counted.
    ///
    /// Relaxed: the value was written before the entry was linked, which the lookup has acquired, and the
    /// count orders the end alone.
    fn try_hold(&self) -> bool {
        let may = |holds: u32| (holds != 0 || mutant!("held.revived")) && holds < MAX_HOLDS;
        self.holds.update(Relaxed, Relaxed, |holds| may(holds).then_some(holds + 1)).is_ok()
    }

    /// Counts a hold less. Whether that was the last one.
    fn put(&self) -> bool {
        let order = if mutant!("held.put-relaxed") { Relaxed } else { AcqRel };
        self.holds.fetch_sub(1, order) == 1
    }
}

impl<'m, V: Send + Sync, M: Machine> HeldRegistry<'m, V, M> {
    /// An empty registry, whose values will lie in frames of `memory`, for readers of `rcu`. `None` where
    /// memory does not suffice.
    pub(crate) fn new(memory: &'m Memory<'m, M>, rcu: &'m Rcu<'m, M::Cpu>) -> Option<Self> {
        Some(Self { registry: Registry::new(memory, rcu)?, memory, rcu })
    }

    /// Puts a value in under a number that no other one has or had, with one hold. `Err` with the value
    /// where there is no memory.
    pub(crate) fn insert(&self, number: NonZeroU64, value: V) -> Result<Hold<'_, 'm, V, M>, V> {
        let value = UnsafeCell::new(ManuallyDrop::new(value));
        let held = HeldValue { holds: AtomicU32::new(1), value };
        match self.registry.insert(self.memory, number, held) {
            Ok(held) => Ok(Hold { registry: self, number, held }),
            Err(held) => Err(ManuallyDrop::into_inner(held.value.into_inner())),
        }
    }

    /// A hold of the value of that number. `None` where there is none, it has begun to end, or it has as many
    /// holds as can be counted. Takes no lock and does not wait.
    ///
    /// # Panics
    /// Where the section is one of another RCU.
    pub(crate) fn hold(
        &self,
        number: NonZeroU64,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Option<Hold<'_, 'm, V, M>> {
        let held = self.registry.get(number, reading)?;
        held.try_hold().then(|| Hold { registry: self, number, held: NonNull::from(held) })
    }
}

impl<V: Send + Sync, M: Machine> Hold<'_, '_, V, M> {
    fn held(&self) -> &HeldValue<V, M::Cpu> {
        // SAFETY: by the invariant it lies in an entry that is in the registry: only the hold that takes the
        // count to 0 removes that, by its place (`Registry::remove_at`), and this one is counted.
        unsafe { self.held.as_ref() }
    }

    /// A hold more of the same value. `None` where it has as many as can be counted.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        let Self { registry, number, held } = *self;
        self.held().try_hold().then(|| Self { registry, number, held })
    }

    /// Number of holds; stale at once.
    pub(crate) fn holds_racy(&self) -> u32 {
        self.held().holds.load(Relaxed)
    }
}

impl<V: Send + Sync, M: Machine> Deref for Hold<'_, '_, V, M> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        // SAFETY: the value is written by the hold that takes the count to 0, and not before; this one is
        // counted.
        unsafe { &*self.held().value.get() }
    }
}

impl<V: Send + Sync, M: Machine> Drop for Hold<'_, '_, V, M> {
    fn drop(&mut self) {
        let held = self.held();
        if !held.put() {
            return;
        }
        // SAFETY: this hold took the count to 0, where it stays: no other hold is there or can be had, so the
        // value is this one's alone, and is dropped once. What was done through the others comes before
        // (`put`).
        unsafe { ManuallyDrop::drop(&mut *held.value.get()) };
        let HeldRegistry { registry, memory, rcu } = self.registry;
        let removed = registry.remove_at(memory, rcu, self.number, self.held);
        debug_assert!(removed, "a value that was held is in its registry");
    }
}

impl<V, M: Machine> fmt::Debug for HeldRegistry<'_, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, of values that are held", self.registry)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/held.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "tests/loom_held.rs"]
mod loom_tests;
