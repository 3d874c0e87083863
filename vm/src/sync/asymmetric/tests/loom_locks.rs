//! The owner of locks against a CPU that wants one of them.

use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::lockdep::table;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::sync::{AsymmetricLocks, RawSpinLock};
use crate::units::Level;
use loom::cell::UnsafeCell;
use std::sync::Arc;

/// Two locks, one below the other, and the value that both guard together.
struct Pair {
    machine: TestMachine,
    locks: AsymmetricLocks<TestCpu>,
    above: RawSpinLock<TestCpu>,
    below: RawSpinLock<TestCpu>,
    value: UnsafeCell<u32>,
}

impl Pair {
    fn new() -> Self {
        let pair = Self {
            machine: TestMachine::with_cpus(1, 3),
            locks: AsymmetricLocks::new(),
            above: RawSpinLock::new(),
            below: RawSpinLock::new(),
            value: UnsafeCell::new(0),
        };
        // A word's shadow is made by the thread that touches it first, and must be there before the threads
        // are.
        pair.locks.release_ownership();
        pair
    }

    fn add(&self) {
        // SAFETY: the upper lock is held: what loom is here to check.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

fn once(pair: &Pair) {
    let _above = pair.locks.lock(&pair.above, table(Level::Pmd), &pair.machine);
    pair.add();
}

fn twice(pair: &Pair) {
    once(pair);
    once(pair);
}

fn both(pair: &Pair) {
    let above = pair.locks.lock(&pair.above, table(Level::Pmd), &pair.machine);
    let below = pair.locks.lock_below(&above, &pair.below, table(Level::Pte));
    pair.add();
    drop(below);
    pair.add();
}

/// The upper one first: the count says that one is still held.
fn crosswise(pair: &Pair) {
    let above = pair.locks.lock(&pair.above, table(Level::Pmd), &pair.machine);
    let below = pair.locks.lock_below(&above, &pair.below, table(Level::Pte));
    pair.add();
    drop(above);
    drop(below);
}

fn once_and_leave(pair: &Pair) {
    once(pair);
    pair.locks.release_ownership();
}

/// Runs each function on a CPU of its own. Returns the number of executions.
fn explore(preemptions: usize, first: fn(&Pair), others: &'static [fn(&Pair)], sum: u32) -> usize {
    run_model(preemptions, move || {
        let pair = Arc::new(Pair::new());
        let threads: std::vec::Vec<_> = (1..)
            .zip(others)
            .map(|(cpu, run)| {
                let pair = pair.clone();
                thread::spawn(move || {
                    TestCpu::become_cpu(cpu);
                    run(&pair);
                })
            })
            .collect();
        first(&pair);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: the other threads have ended.
        pair.value.with(|value| assert_eq!(unsafe { *value }, sum));
    })
}

#[test]
fn loom_asymmetric_locks_exclude_and_publish() {
    assert!(explore(3, twice, &[twice], 4) > 10);
}

#[test]
fn loom_asymmetric_locks_released_go_to_the_next_owner() {
    assert!(explore(3, once_and_leave, &[once_and_leave], 2) > 10);
}

#[test]
fn loom_asymmetric_locks_revoker_waits_for_the_lower_lock_too() {
    assert!(explore(3, both, &[twice], 4) > 10);
    assert!(explore(3, crosswise, &[once], 2) > 10);
}

#[test]
fn loom_asymmetric_locks_are_revoked_once_by_two() {
    assert!(explore(2, once, &[once, once], 3) > 10);
}
