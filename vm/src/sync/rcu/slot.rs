//! A pointer that readers follow without a lock.

use super::ReadGuard;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicPtr, Ordering::*};
use core::fmt;
use core::ptr::NonNull;

/// The current version of a `T`, or none. All-zero is none.
#[repr(transparent)]
pub struct RcuSlot<T, C: Cpu> {
    /// Publishing releases the new version's content to a reader that loads it with acquire.
    pointer: AtomicPtr<T, C>,
}

impl<T, C: Cpu> RcuSlot<T, C> {
    /// An empty slot.
    pub const fn new() -> Self {
        Self { pointer: AtomicPtr::null() }
    }

    /// The current version, which stays in memory as long as the read section.
    #[inline(always)]
    #[track_caller]
    pub fn load<'g>(&self, _section: &'g ReadGuard<'_, C>) -> Option<&'g T> {
        // SAFETY: the publisher promised that it stays valid until a grace period after it was replaced.
        // We found it, so it was not replaced before the read section began, and the grace period waits for
        // the section's end.
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
    /// nor mutably borrowed; after it has been replaced it stays valid for a grace period of the RCU whose
    /// guards are used to load it.
    #[inline]
    #[track_caller]
    pub unsafe fn publish(&self, new: Option<NonNull<T>>) -> Option<NonNull<T>> {
        NonNull::new(self.pointer.swap(new.map_or(core::ptr::null_mut(), NonNull::as_ptr), AcqRel))
    }
}

impl<T, C: Cpu> Default for RcuSlot<T, C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, C: Cpu> fmt::Debug for RcuSlot<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.pointer, f)
    }
}
