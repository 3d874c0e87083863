//! rayon: splitting work among a caller who is a worker and the others. The caller is in the pool, which is rayon's best case: it
//! is not woken, and it works.

use crate::bench::ns_per_rested;
use crate::command::Failure;
use crate::os::affinity;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::hint::black_box;

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
