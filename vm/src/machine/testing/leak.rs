//! Values that borrow from each other, for threads that must not borrow.

use std::boxed::Box;

/// Calls `f` with a value of static lifetime, and drops it afterwards. `f` ends the threads that it starts;
/// if it panics, they may still run, and the value is leaked.
pub fn with_leaked<T: 'static, R>(value: T, f: impl FnOnce(&'static T) -> R) -> R {
    let at = Box::into_raw(Box::new(value));
    // SAFETY: the box is valid, and freed below.
    let result = f(unsafe { &*at });
    // SAFETY: from `into_raw`; `f` is done, and so are its threads, by this function's contract with tests.
    drop(unsafe { Box::from_raw(at) });
    result
}
