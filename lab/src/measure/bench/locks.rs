//! What does the host's own reader/writer lock cost a reader, alone and with a second reader?
//!
//! A lock taken shared is written by every reader, so its line moves between their CPUs: two readers together
//! do less than one alone. That is the cost which speculation avoids, measured on the simplest case there is.

use super::{Benchmark, Figure, Options, paired, pinned_threads, yardstick};
use crate::error::Failure;
use std::hint::black_box;
use std::sync::RwLock;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "machine.rwlock",
    question: "What does std's RwLock cost a reader, and do two readers get twice as far as one?",
    figures: &["machine.rwlock_pair", "machine.rwlock_two"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let times = options.size(20_000, 100);
    let pair = {
        let _pinned = options.pin();
        let rwlock = yardstick::locks::rwlock_read_pair(times);
        let mutex = yardstick::locks::mutex_pair(times);
        paired(options, "machine.rwlock_pair", "ns", rwlock, "std Mutex, a pair", mutex)
    };
    Ok(vec![pair, two_readers(options)])
}

/// Pairs per second of as many readers as there are CPUs, two at most, against one reader.
fn two_readers(options: &Options) -> Figure {
    let times = options.size(200_000, 100);
    let lock = RwLock::new(0u64);
    let read = |_| {
        black_box(*lock.read().expect("no thread panics while holding it"));
    };
    let one = &options.cpus[..1];
    let both = &options.cpus[..options.cpus.len().min(2)];
    paired(
        options,
        "machine.rwlock_two",
        "1/s",
        || pinned_threads::rate(both, times, read),
        "one reader",
        || pinned_threads::rate(one, times, read),
    )
}
