//! rayon: what it costs to hand a job to every worker and wait for all.

use crate::error::Failure;
use crate::measure::bench::ns_per;
use crate::os::affinity;
use rayon::ThreadPoolBuilder;
use std::hint::black_box;

/// Running an empty job once on each worker of a pool, one worker per CPU, each pinned to its own.
pub fn rayon_dispatch(cpus: &[usize], times: u64) -> Result<impl FnMut() -> f64 + use<>, Failure> {
    let own = cpus.to_vec();
    let pool = ThreadPoolBuilder::new()
        .num_threads(cpus.len())
        .start_handler(move |index| {
            // Pinned for as long as the worker lives; a host that forbids it only makes the figure noisier.
            std::mem::forget(affinity::pin(own[index]));
        })
        .build()
        .map_err(|e| Failure::usage(format!("rayon's workers do not start: {e}")))?;
    Ok(move || {
        ns_per(times, || {
            black_box(pool.broadcast(|worker| worker.index()));
        })
    })
}
