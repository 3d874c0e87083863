//! Trying a lock.

use super::*;
use crate::machine::testing::TestCpu;

#[test]
fn a_held_lock_stays_held_when_another_thread_tries_it() {
    let lock = RawSpinLock::<TestCpu>::new();
    let guard = lock.lock(Rank(3));
    assert!(lock.try_lock(Rank(4)).is_none());
    assert!(lock.is_held_racy());
    drop(guard);
    assert!(!lock.is_held_racy());
    assert!(lock.try_lock(Rank(3)).is_some());
}

#[test]
fn a_holder_learns_that_another_cpu_waits() {
    let lock = RawSpinLock::<TestCpu>::new();
    let held = lock.lock(Rank(50));
    assert!(!held.is_contended());
    // What a waiter does until the lock is free.
    assert!(!lock.is_free_or_noted() && held.is_contended() && lock.is_held_racy());
    assert!(!lock.is_free_or_noted() && lock.try_lock(Rank(50)).is_none());
    drop(held);
    assert!(lock.is_free_or_noted() && !lock.is_held_racy());
    assert!(!lock.lock(Rank(50)).is_contended(), "that was the last holder's");
}
