//! Readers and writers that hold the lock, wait for it and wake each other. A sleeper is not woken early
//! here, so a lost wake-up is a deadlock.

use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use loom::cell::UnsafeCell;
use std::sync::Arc;

struct Counter {
    lock: RwLock<TestCpu, 0>,
    value: UnsafeCell<u32>,
}

/// Runs `others` on CPUs 1, 2, ... against `first` on CPU 0, and returns the number of executions. Each
/// function returns the number that it added to the value.
fn explore(preemptions: usize, first: fn(&Counter) -> u32, others: &'static [fn(&Counter) -> u32]) -> usize {
    run_model(preemptions, move || {
        let counter = Arc::new(Counter { lock: RwLock::new(), value: UnsafeCell::new(0) });
        assert_eq!(counter.lock.word.load(Relaxed), 0);
        let threads: std::vec::Vec<_> = others
            .iter()
            .zip(1..)
            .map(|(run, cpu)| {
                let counter = counter.clone();
                thread::spawn(move || {
                    TestCpu::become_cpu(cpu);
                    run(&counter)
                })
            })
            .collect();
        let mut sum = first(&counter);
        sum += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>();
        // SAFETY: the other threads have ended.
        counter.value.with(|value| assert_eq!(unsafe { *value }, sum));
        assert_eq!(counter.lock.word.load(Relaxed), 0, "a bit is left over");
    })
}

fn add(counter: &Counter) {
    // SAFETY: the lock is held for writing: what loom is here to check.
    counter.value.with_mut(|value| unsafe { *value += 1 });
}

fn look(counter: &Counter) {
    // SAFETY: the lock is held for reading: what loom is here to check.
    counter.value.with(|value| assert!(unsafe { *value } <= 4));
}

fn write(counter: &Counter) -> u32 {
    let _writer = counter.lock.write();
    add(counter);
    1
}

fn read(counter: &Counter) -> u32 {
    let _reader = counter.lock.read();
    look(counter);
    0
}

#[test]
fn loom_rwlock_excludes_and_publishes() {
    assert!(explore(3, read, &[write]) > 10);
}

#[test]
fn loom_rwlock_two_writers_lose_no_wake_up() {
    assert!(explore(3, write, &[write]) > 10);
}

#[test]
fn loom_rwlock_two_writers_and_a_reader_lose_no_wake_up() {
    assert!(explore(2, write, &[write, read]) > 100);
}

#[test]
fn loom_rwlock_a_writer_and_two_readers_lose_no_wake_up() {
    assert!(explore(2, read, &[write, read]) > 100);
}

/// Adds one, and goes on reading what it wrote.
fn write_and_stay(counter: &Counter) -> u32 {
    let writer = counter.lock.write();
    add(counter);
    let _reader = writer.downgrade();
    look(counter);
    1
}

#[test]
fn loom_rwlock_three_writers_take_turns() {
    assert!(explore(2, write, &[write, write]) > 100);
}

fn write_three_times(counter: &Counter) -> u32 {
    (0..3).map(|_| write(counter)).sum()
}

fn write_twice(counter: &Counter) -> u32 {
    write(counter) + write(counter)
}

#[test]
fn loom_rwlock_a_writer_that_comes_again_passes_a_sleeper_and_wakes_it() {
    static MOST: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let first = |counter: &Counter| {
        let sum = write_three_times(counter);
        MOST.fetch_max(counter.lock.longest_waits().writers_past_writer, Relaxed);
        sum
    };
    assert!(explore(3, first, &[write]) > 100);
    assert_eq!(MOST.load(Relaxed), word::MAX_PASSES, "it is passed as often as it may be");
}

#[test]
fn loom_rwlock_writers_that_pass_lose_no_wake_up() {
    assert!(explore(3, write_twice, &[write_twice]) > 100);
    assert!(explore(2, write_twice, &[write, write]) > 100);
}

#[test]
fn loom_rwlock_a_reader_among_writers_that_pass_loses_no_wake_up() {
    assert!(explore(2, write_twice, &[write, read]) > 100);
}

#[test]
fn loom_rwlock_a_writer_that_stays_as_a_reader_lets_no_writer_between() {
    assert!(explore(3, write_and_stay, &[write]) > 10);
    assert!(explore(2, write_and_stay, &[write, read]) > 100);
    assert!(explore(2, write_and_stay, &[write_and_stay, read]) > 100);
}

#[test]
#[should_panic = "Causality violation: Concurrent"]
fn loom_rwlock_not_taken_by_the_reader_fails() {
    explore(
        2,
        |counter| {
            look(counter);
            0
        },
        &[write],
    );
}

#[test]
#[should_panic = "deadlock"]
fn loom_rwlock_released_without_a_wake_up_fails() {
    explore(
        2,
        |counter| {
            let held = counter.lock.write();
            add(counter);
            core::mem::forget(held);
            lockdep::release::<TestCpu>(Rank(0));
            counter.lock.word.store(0, Release);
            1
        },
        &[write],
    );
}

#[test]
#[should_panic = "Causality violation: Concurrent"]
fn loom_rwlock_released_without_release_fails() {
    explore(
        2,
        |counter| {
            let held = counter.lock.write();
            add(counter);
            core::mem::forget(held);
            lockdep::release::<TestCpu>(Rank(0));
            if counter.lock.word.compare_exchange(WRITER, 0, Relaxed, Relaxed).is_err() {
                counter.lock.end_writer_phase();
            }
            1
        },
        &[write],
    );
}
