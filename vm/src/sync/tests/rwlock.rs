//! The lock among threads, and its transitions as values.

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
fn new_readers_wait_behind_a_waiting_writer() {
    assert_eq!(Mode::Read.taken(1 | WRITER_WAITS, false), None);
    assert_eq!(Mode::Read.taken(1 | WRITER_WAITS, true), Some(2 | WRITER_WAITS));
    assert_eq!(Mode::Write.taken(READER_WAITS, false), Some(WRITER | READER_WAITS));
    assert_eq!(Mode::Write.taken(1, true), None);
    assert_eq!(Mode::Read.taken(READERS, true), None);
}
