//! A value that is set once, at boot, and read ever after.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering::*};

/// 0 empty, 1 being set, 2 set. The releasing store of 2 pairs with the acquiring load in `get`.
#[derive(Debug)]
pub struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written by the one thread that moved the state from 0 to 1, before it moves it to 2,
// and only shared after that.
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { state: AtomicU8::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Sets the value; it stays for good.
    ///
    /// # Panics
    /// The second time.
    pub fn set(&self, value: T) -> &T {
        let first = self.state.compare_exchange(0, 1, Relaxed, Relaxed).is_ok();
        assert!(first, "set twice");
        // SAFETY: only this thread moved the state to 1, and the value is read only in state 2.
        unsafe { (*self.value.get()).write(value) };
        self.state.store(2, Release);
        self.get()
    }

    /// The value.
    ///
    /// # Panics
    /// Where none was set.
    #[inline]
    pub fn get(&self) -> &T {
        self.try_get().expect("set at boot")
    }

    /// The value, if it was set.
    #[inline]
    pub fn try_get(&self) -> Option<&T> {
        // SAFETY: state 2 says that the value was written before, and it is only shared from then on.
        (self.state.load(Acquire) == 2).then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}
