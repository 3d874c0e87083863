//! A list of at most `N` values that several threads append to and one reads afterwards.
//!
//! An empty list costs nothing to make, however many values it can hold: a value's memory is initialised when
//! it is pushed.

use super::atomic::{AtomicU32, Ordering::*};
use crate::machine::Cpu;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;

/// A bounded list; see the module.
pub struct BoundedList<T: Copy + Send + Sync, C: Cpu, const N: usize> {
    /// Number of pushes begun, refused ones included. Relaxed: it gives each push a slot of its own, and
    /// orders nothing.
    reserved: AtomicU32<C>,
    /// Number of values pushed. Released by a push, acquired by a reader.
    pushed: AtomicU32<C>,
    places: [UnsafeCell<MaybeUninit<T>>; N],
}

// SAFETY: each push writes a place that no other push is given, and the values are read only while no push is
// under way.
unsafe impl<T: Copy + Send + Sync, C: Cpu, const N: usize> Sync for BoundedList<T, C, N> {}

impl<T: Copy + Send + Sync, C: Cpu, const N: usize> BoundedList<T, C, N> {
    /// An empty list.
    #[expect(clippy::new_without_default, reason = "one way to make one is enough")]
    #[inline(always)]
    pub const fn new() -> Self {
        let places = [const { UnsafeCell::new(MaybeUninit::uninit()) }; N];
        Self { reserved: AtomicU32::new(0), pushed: AtomicU32::new(0), places }
    }

    /// Appends a value. False if the list is full.
    pub fn push(&self, value: T) -> bool {
        // Without this look a list that stays full would count on, and 2^32 refused pushes later give out a
        // place anew.
        let is_full = self.reserved.load(Relaxed) as usize >= N && !mutant!("bounded-list.count-wraps");
        if is_full {
            return false;
        }
        let place = self.places.get(self.reserved.fetch_add(1, Relaxed) as usize);
        if let Some(place) = place {
            // SAFETY: each number is given out once: past `N` only by threads that looked before, one for
            // each, and there are not 2^31 of them. So no other push has this place; and the values are not
            // read while fewer were pushed than places were given out.
            unsafe { place.get().write(MaybeUninit::new(value)) };
            self.pushed.fetch_add(1, Release);
        }
        place.is_some()
    }

    /// The values; `None` while a push is under way.
    pub fn values(&self) -> Option<&[T]> {
        // In this order: after the acquiring load the pushes that it counts are seen to have reserved, so an
        // equal number says that there is no other. The other way round a push that reserves and ends between
        // the two loads would stand for one that is under way.
        let early = mutant!("bounded-list.reserved-first").then(|| self.reserved.load(Relaxed));
        let pushed = self.pushed.load(Acquire) as usize;
        let reserved = early.unwrap_or_else(|| self.reserved.load(Relaxed)) as usize;
        if pushed != reserved.min(N) {
            return None;
        }
        let values = self.places.as_ptr().cast::<T>();
        // SAFETY: `pushed` pushes had ended, and those that were given a place were seen in `reserved`: as
        // both are equal, each of the first `pushed` places was written before a store that we acquired (the
        // read-modify-writes of `pushed` are one release sequence). No place is given out twice, so they stay
        // as they are. Cells and `MaybeUninit` are laid out like the value.
        Some(unsafe { core::slice::from_raw_parts(values, pushed) })
    }
}

impl<T: Copy + Send + Sync, C: Cpu, const N: usize> fmt::Debug for BoundedList<T, C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedList of {N}")
    }
}

#[cfg(all(test, loom))]
#[path = "tests/loom_bounded_list.rs"]
mod loom_tests;
#[cfg(all(test, not(loom)))]
#[path = "tests/bounded_list.rs"]
mod tests;
