//! A pointer that readers follow without a lock.

use super::{Rcu, ReadGuard};
use crate::machine::Cpu;
use crate::sync::UniqueId;
use crate::sync::atomic::{AtomicPtr, Ordering::*};
use core::fmt;
use core::ptr::NonNull;

/// The current version of a `T`, or none, for the readers of one RCU.
pub struct RcuSlot<T, C: Cpu> {
    rcu: UniqueId,
    /// Publishing releases the new version's content to a reader that loads it with acquire.
    pointer: AtomicPtr<T, C>,
}

impl<T, C: Cpu> RcuSlot<T, C> {
    /// An empty slot for readers of `rcu`.
    pub fn new(rcu: &Rcu<C>) -> Self {
        Self { rcu: rcu.id(), pointer: AtomicPtr::null() }
    }

    /// The current version, which stays in memory as long as the read section.
    ///
    /// # Panics
    /// If the read section is one of another RCU.
    #[inline(always)]
    #[track_caller]
    pub fn load<'g>(&self, section: &'g ReadGuard<'_, C>) -> Option<&'g T> {
        section.assert_of(self.rcu);
        // SAFETY: the publisher promised that it stays valid until a grace period of the slot's RCU after it
        // was replaced. We found it, so it was not replaced before the read section began; the section is one
        // of that RCU, as just checked, so the grace period waits for its end.
        unsafe { self.pointer.load(Acquire).as_ref() }
    }

    /// The current version, for writers.
    #[inline]
    #[track_caller]
    pub fn get(&self) -> Option<NonNull<T>> {
        NonNull::new(self.pointer.load(Acquire))
    }

    /// Makes `new` the current version and returns the one before, which is then to be retired.
    ///
    /// # Safety
    /// `new` may be shared with all threads, points to a valid `T`, and from now on that `T` is neither moved
    /// nor mutably borrowed; after it has been replaced it stays valid for a grace period of the slot's RCU.
    #[inline]
    #[track_caller]
    pub unsafe fn publish(&self, new: Option<NonNull<T>>) -> Option<NonNull<T>> {
        NonNull::new(self.pointer.swap(new.map_or(core::ptr::null_mut(), NonNull::as_ptr), AcqRel))
    }
}

impl<T, C: Cpu> fmt::Debug for RcuSlot<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.pointer, f)
    }
}
