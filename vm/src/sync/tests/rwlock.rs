//! The lock among threads, and its transitions as values.

use super::word::{
    MAX_PASSES, OPEN, Successor, held_by_readers, held_by_waiter, successor, taken_by_late_reader,
    taken_by_writer,
};
use super::*;
use crate::machine::testing::TestCpu;
use core::sync::atomic::AtomicU64;
use std::thread;

type Lock = RwLock<TestCpu, 0>;

#[test]
fn one_writer_or_many_readers_never_both() {
    let (lock, inside, sum) = (Lock::new(), AtomicU32::<TestCpu>::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for id in 0..4 {
            let (lock, inside, sum) = (&lock, &inside, &sum);
            scope.spawn(move || {
                TestCpu::become_cpu(id);
                for round in 0..2_000 {
                    if (round + id) % 3 == 0 {
                        let _writer = lock.write();
                        assert_eq!(inside.fetch_add(1 << 16, Relaxed), 0);
                        sum.store(sum.load(Relaxed) + 1, Relaxed);
                        inside.fetch_sub(1 << 16, Relaxed);
                    } else {
                        let _reader = lock.read();
                        assert!(inside.fetch_add(1, Relaxed) < 1 << 16);
                        inside.fetch_sub(1, Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(
        sum.into_inner(),
        (0..4).flat_map(|id| (0..2_000).map(move |r| r + id)).filter(|n| n % 3 == 0).count() as u64
    );
    assert_eq!(lock.word.load(Relaxed), 0);
}

#[test]
fn new_readers_wait_behind_a_waiting_writer_and_writers_behind_everybody() {
    assert_eq!(taken_by_reader(1), Some(2));
    assert_eq!(taken_by_reader(1 | WRITER_WAITS), None);
    assert_eq!(taken_by_reader(WRITER), None);
    assert_eq!(taken_by_reader(READERS), None);
    assert_eq!(taken_by_writer(0), Some(WRITER));
    assert_eq!(taken_by_writer(1), None);
    assert_eq!(taken_by_writer(READER_WAITS | WRITER_WAITS), None);
    assert_eq!(taken_by_writer(WRITER_WAITS), None, "a phase of readers ends, with a grant");
    assert_eq!(taken_by_late_reader(WRITER_WAITS), None);
}

#[test]
fn an_open_lock_is_taken_by_any_thread_and_writers_still_wait() {
    let open = OPEN | WRITER_WAITS;
    assert_eq!(taken_by_writer(open), Some(WRITER | WRITER_WAITS));
    assert_eq!(taken_by_late_reader(open), Some(1 | WRITER_WAITS));
    assert_eq!(taken_by_reader(open), None, "a reader that comes looks for writers first");
    assert_eq!(held_by_waiter(open, false), WRITER);
    assert_eq!(held_by_waiter(open, true), WRITER | WRITER_WAITS);
    assert_eq!(held_by_waiter(READER_WAITS | WRITER_WAITS, false), WRITER | READER_WAITS);
    assert_eq!(held_by_readers(WRITER | READER_WAITS | WRITER_WAITS, 3), 3 | WRITER_WAITS);
}

#[test]
fn a_writer_leaves_the_lock_to_readers_that_wait_else_to_anybody_until_too_many_have_passed() {
    let (readers, writers) = (WRITER | READER_WAITS, WRITER | WRITER_WAITS);
    for nr_passes in [0, MAX_PASSES, MAX_PASSES + 1] {
        assert_eq!(successor(readers, nr_passes, false), Successor::Readers);
        assert_eq!(successor(readers | WRITER_WAITS, nr_passes, true), Successor::Readers);
    }
    assert_eq!(successor(writers, MAX_PASSES - 1, false), Successor::Anybody);
    assert_eq!(successor(writers, MAX_PASSES, false), Successor::FirstWriter);
    assert_eq!(successor(writers, 0, true), Successor::FirstWriter, "it was woken and came too late");
}

/// A lock that a writer holds, while another waits that is not scheduled meanwhile: it is a ticket.
fn held_before_a_writer_that_does_not_run(lock: &Lock) -> RwWriteGuard<'_, TestCpu, 0> {
    let held = lock.write();
    lock.add_waiting_writer();
    held
}

#[test]
fn a_writer_that_waits_is_passed_a_limited_number_of_times_and_then_granted_the_lock() {
    let lock = Lock::new();
    drop(held_before_a_writer_that_does_not_run(&lock));
    for _ in 0..MAX_PASSES {
        assert_eq!(lock.word.load(Relaxed), OPEN | WRITER_WAITS);
        drop(lock.write());
    }
    assert_eq!(lock.word.load(Relaxed), WRITER, "granted to the writer that waits");
    assert_eq!(lock.served.load(Relaxed), 1);
    assert_eq!(lock.longest_waits().writers_past_writer, MAX_PASSES);
}

#[test]
fn a_reader_that_finds_the_lock_open_is_one_phase_and_the_writer_is_next() {
    let lock = Lock::new();
    drop(held_before_a_writer_that_does_not_run(&lock));
    let reader = lock.read();
    assert_eq!(lock.word.load(Relaxed), WRITER_WAITS | 1);
    assert!(lock.try_read().is_none(), "a writer waits");
    drop(reader);
    assert_eq!(lock.word.load(Relaxed), WRITER, "granted to the writer that waits");
    assert_eq!(lock.reader_phase.load(Relaxed), 2, "one phase, nobody sleeps");
}

#[test]
fn a_writer_that_becomes_a_reader_lets_readers_in_and_keeps_writers_out() {
    let lock = Lock::new();
    let reader = lock.write().downgrade();
    assert!(lock.try_read().is_some());
    let got = core::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let (lock, got) = (&lock, &got);
        scope.spawn(move || {
            TestCpu::become_cpu(1);
            let _writer = lock.write();
            got.store(true, Relaxed);
        });
        while lock.word.load(Relaxed) & WRITER_WAITS == 0 {
            thread::yield_now();
        }
        assert!(lock.try_read().is_none(), "a writer waits");
        assert!(!got.load(Relaxed));
        drop(reader);
    });
    assert!(got.load(Relaxed));
    assert_eq!(lock.word.load(Relaxed), 0);
}

#[test]
#[should_panic = "too many readers"]
fn more_readers_than_the_word_counts_are_refused() {
    let lock = Lock::new();
    lock.word.store(READERS, Relaxed);
    let _reader = lock.read();
}

/// Waits until a bit of the word is set.
fn await_bit(lock: &Lock, bit: u32) {
    while lock.word.load(Relaxed) & bit == 0 {
        thread::yield_now();
    }
}

#[test]
fn a_reader_behind_a_waiting_writer_counts_one_grant_and_the_writer_none() {
    let lock = Lock::new();
    let reader = lock.read();
    thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            TestCpu::become_cpu(1);
            let _writer = lock.write();
        });
        await_bit(lock, WRITER_WAITS);
        scope.spawn(move || {
            TestCpu::become_cpu(2);
            let _reader = lock.read();
        });
        await_bit(lock, READER_WAITS);
        drop(reader);
    });
    assert_eq!(lock.longest_waits(), LongestWaits { writers_before_reader: 1, ..LongestWaits::default() });
}

#[test]
fn a_writer_behind_waiting_readers_counts_one_phase_and_the_readers_no_grant() {
    let lock = Lock::new();
    let writer = lock.write();
    thread::scope(|scope| {
        let lock = &lock;
        scope.spawn(move || {
            TestCpu::become_cpu(1);
            let _reader = lock.read();
        });
        await_bit(lock, READER_WAITS);
        scope.spawn(move || {
            TestCpu::become_cpu(2);
            let _writer = lock.write();
        });
        await_bit(lock, WRITER_WAITS);
        drop(writer);
    });
    assert_eq!(lock.longest_waits(), LongestWaits { phases_before_writer: 1, ..LongestWaits::default() });
}
