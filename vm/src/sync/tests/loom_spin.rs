//! The lock by itself: its word, and what other models rely on.

use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::testing::thread;
use crate::sync::testing::{UNBOUNDED, run_model};
use std::sync::Arc;

/// A lock, and the value that it guards.
struct Counter {
    lock: RawSpinLock<TestCpu>,
    value: loom::cell::UnsafeCell<u32>,
}

impl Counter {
    fn add(&self) {
        // SAFETY: the caller holds the lock: what loom is here to check.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

fn two_threads(add: fn(&Counter)) {
    run_model(UNBOUNDED, move || {
        let counter = Arc::new(Counter { lock: RawSpinLock::new(), value: loom::cell::UnsafeCell::new(0) });
        assert!(!counter.lock.is_held_racy());
        let other = thread::spawn({
            let counter = counter.clone();
            move || add(&counter)
        });
        add(&counter);
        other.join().unwrap();
        // SAFETY: the other thread has ended.
        counter.value.with(|value| assert_eq!(unsafe { *value }, 2));
    });
}

#[test]
fn loom_spin_lock_excludes_and_publishes() {
    two_threads(|counter| {
        counter.lock.take_word();
        counter.add();
        release_word(&counter.lock.word);
    });
}

#[test]
#[should_panic = "Causality violation: Concurrent"]
fn loom_spin_lock_released_without_release_fails() {
    two_threads(|counter| {
        counter.lock.take_word();
        counter.add();
        counter.lock.word.store(0, Relaxed);
    });
}

#[test]
#[should_panic = "Causality violation: Concurrent"]
fn loom_spin_lock_that_loads_before_it_stores_fails() {
    two_threads(|counter| {
        while counter.lock.is_held_racy() {
            thread::yield_now();
        }
        counter.lock.word.store(1, Relaxed);
        counter.add();
        release_word(&counter.lock.word);
    });
}
