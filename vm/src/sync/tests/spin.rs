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
