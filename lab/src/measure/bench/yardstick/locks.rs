//! The host's own locks, uncontended.

use crate::measure::bench::ns_per;
use std::hint::black_box;
use std::sync::{Mutex, RwLock};

/// Taking std's `RwLock` shared and releasing it.
pub fn rwlock_read_pair(times: u64) -> impl FnMut() -> f64 {
    let lock = RwLock::new(0u64);
    move || {
        ns_per(times, || {
            black_box(*black_box(&lock).read().expect("no thread panics while holding it"));
        })
    }
}

/// Taking std's `RwLock` exclusively and releasing it.
pub fn rwlock_write_pair(times: u64) -> impl FnMut() -> f64 {
    let lock = RwLock::new(0u64);
    move || ns_per(times, || *black_box(&lock).write().expect("no thread panics while holding it") += 1)
}

/// Taking std's `Mutex` and releasing it.
pub fn mutex_pair(times: u64) -> impl FnMut() -> f64 {
    let lock = Mutex::new(0u64);
    move || ns_per(times, || *black_box(&lock).lock().expect("no thread panics while holding it") += 1)
}
