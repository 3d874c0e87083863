//! Work by rayon, and by hand.
//!
//! rayon splits work among a caller that is a worker and the others. The caller is in the pool, which is
//! rayon's best case: it is not woken, and it works.

use crate::error::Failure;
use crate::measure::bench::ns_per_rested;
use crate::os::affinity;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// A pool of one worker for each CPU, each pinned to its own.
pub fn pool(cpus: &[usize]) -> Result<ThreadPool, Failure> {
    let own = cpus.to_vec();
    ThreadPoolBuilder::new()
        .num_threads(cpus.len())
        .start_handler(move |index| {
            // Pinned for as long as the worker lives; a host that forbids it only makes the figure noisier.
            std::mem::forget(affinity::pin(own[index]));
        })
        .build()
        .map_err(|e| Failure::usage(format!("rayon's workers do not start: {e}")))
}

/// Two empty halves, either of which any worker may do.
pub fn halves(pool: &ThreadPool, times: u64) -> f64 {
    pool.install(|| {
        ns_per_rested(times, || {
            black_box(rayon::join(|| black_box(1), || black_box(2)));
        })
    })
}

/// `work` once on every worker.
pub fn everywhere(pool: &ThreadPool, times: u64, work: impl Fn() + Sync) -> f64 {
    pool.install(|| {
        ns_per_rested(times, || {
            pool.broadcast(|_| work());
        })
    })
}

/// `work` for each of the items.
pub fn each<T: Sync>(pool: &ThreadPool, times: u64, items: &[T], work: impl Fn(&T) + Sync) -> f64 {
    pool.install(|| ns_per_rested(times, || items.par_iter().for_each(&work)))
}

/// A number on a line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

/// `work` for each of the items, the second half of them on another CPU if there is one, by a thread that
/// does nothing else: no pool, no balancing, no sleep. The cost left is one cache line there and one back.
pub fn by_hand<T: Sync>(other: Option<usize>, times: u64, items: &[T], work: impl Fn(&T) + Sync) -> f64 {
    let (own, others) = items.split_at(if other.is_some() { items.len() / 2 } else { items.len() });
    let (asked, done) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    let wait = |line: &Line, round: u64| {
        while line.0.load(Acquire) < round {
            std::hint::spin_loop();
        }
    };
    let helper = || {
        let _pinned = other.map(affinity::pin);
        // One more than is timed: see `ns_per_rested`.
        for round in 1..=times + 1 {
            wait(&asked, round);
            others.iter().for_each(&work);
            done.0.store(round, Release);
        }
    };
    std::thread::scope(|scope| {
        if other.is_some() {
            scope.spawn(helper);
        }
        let mut round = 0;
        ns_per_rested(times, || {
            round += 1;
            asked.0.store(round, Release);
            own.iter().for_each(&work);
            if other.is_some() {
                wait(&done, round);
            }
        })
    })
}
