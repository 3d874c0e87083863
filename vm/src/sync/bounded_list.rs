//! A few values that several threads put in, for whoever looks once they have.
//!
//! A tray costs nothing to make, however many it can hold: its values come into being when they are put in.

use super::atomic::{AtomicU32, Ordering::*};
use crate::machine::Cpu;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;

/// See the module. Holds at most `N`.
pub struct BoundedList<T: Copy + Send + Sync, C: Cpu, const N: usize> {
    /// How many places were given out, those that do not exist included. Relaxed: it gives each its own, and
    /// orders nothing.
    given: AtomicU32<C>,
    /// How many values are in. Released by who has put one in, acquired by who looks.
    put: AtomicU32<C>,
    places: [UnsafeCell<MaybeUninit<T>>; N],
}

// SAFETY: values are put each into a place that nobody else is given, and looked at only once no place is
// half filled.
unsafe impl<T: Copy + Send + Sync, C: Cpu, const N: usize> Sync for BoundedList<T, C, N> {}

impl<T: Copy + Send + Sync, C: Cpu, const N: usize> BoundedList<T, C, N> {
    /// An empty tray.
    #[expect(clippy::new_without_default, reason = "one way to make one is enough")]
    #[inline(always)]
    pub const fn new() -> Self {
        let places = [const { UnsafeCell::new(MaybeUninit::uninit()) }; N];
        Self { given: AtomicU32::new(0), put: AtomicU32::new(0), places }
    }

    /// Puts a value in. False where there is no room.
    pub fn put(&self, value: T) -> bool {
        let place = self.places.get(self.given.fetch_add(1, Relaxed) as usize);
        if let Some(place) = place {
            // SAFETY: each number is given out once (they are far fewer than 2^32), so nobody else has this
            // place; and nobody looks while fewer values are in than places were given out.
            unsafe { place.get().write(MaybeUninit::new(value)) };
            self.put.fetch_add(1, Release);
        }
        place.is_some()
    }

    /// What was put in; `None` while somebody is about to.
    pub fn values(&self) -> Option<&[T]> {
        let count = (self.given.load(Relaxed) as usize).min(N);
        if self.put.load(Acquire) as usize != count {
            return None;
        }
        let values = self.places.as_ptr().cast::<T>();
        // SAFETY: as many values are in as places were given out, each was written before the store that we
        // acquired, and no place is given out twice: the first `count` are initialised and stay as they are.
        // Cells and `MaybeUninit` are laid out like the value.
        Some(unsafe { core::slice::from_raw_parts(values, count) })
    }
}

impl<T: Copy + Send + Sync, C: Cpu, const N: usize> fmt::Debug for BoundedList<T, C, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedList of {N}")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::machine::testing::TestCpu;
    use std::vec::Vec;

    #[test]
    fn what_several_put_in_comes_out_and_what_is_too_much_is_refused() {
        let tray = BoundedList::<u64, TestCpu, 8>::new();
        let fits = |from: u64| (from..from + 3).filter(|&value| tray.put(value)).count();
        let fitted: usize = std::thread::scope(|s| {
            let others = [s.spawn(|| fits(10)), s.spawn(|| fits(20))];
            fits(30) + others.into_iter().map(|other| other.join().unwrap()).sum::<usize>()
        });
        let mut values: Vec<u64> = tray.values().unwrap().to_vec();
        values.sort_unstable();
        values.dedup();
        assert_eq!((fitted, values.len()), (8, 8));
        assert!(values.iter().all(|value| (10..13).contains(&(value % 100)) || value % 10 < 3));
        assert!(BoundedList::<u64, TestCpu, 2>::new().values().is_some_and(|values| values.is_empty()));
    }
}
