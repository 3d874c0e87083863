//! What do the machine's ways to order memory cost?
//!
//! An RCU reader that must be seen at once pays a full fence every time; one that lets the writer ask
//! (membarrier) pays nothing, and the writer pays much. Both sides of that bargain, in nanoseconds.

use super::{Benchmark, Figure, Options, alone, ns_per, paired};
use crate::error::Failure;
use crate::os::{affinity, membarrier::Membarrier};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "machine.ordering",
    question: "What do a fence, a shared addition and a barrier for all threads cost?",
    figures: &["machine.fence", "machine.add", "machine.membarrier", "machine.membarrier_busy"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let _pinned = options.pin();
    let times = options.size(20_000, 100);
    let word = AtomicU64::new(0);
    let store = || ns_per(times, || black_box(&word).store(1, Ordering::Relaxed));
    let fenced = || {
        ns_per(times, || {
            black_box(&word).store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        })
    };
    let add = || {
        ns_per(times, || {
            // Relaxed: only the addition's cost is asked for.
            black_box(&word).fetch_add(1, Ordering::Relaxed);
        })
    };
    let barrier = Membarrier::register()?;
    let calls = options.size(200, 10);
    let quiet = || ns_per(calls, || barrier.all_threads());
    Ok(vec![
        paired(options, "machine.fence", "ns", fenced, "a plain store", store),
        paired(options, "machine.add", "ns", add, "a plain store", store),
        alone(options, "machine.membarrier", "ns", quiet),
        while_another_thread_runs(options, || alone(options, "machine.membarrier_busy", "ns", quiet)),
    ])
}

/// Measures while a second thread of this process spins on the second CPU: the barrier must interrupt it.
/// With one CPU there is no such thread, and the figure is that of the quiet barrier.
fn while_another_thread_runs(options: &Options, measure: impl FnOnce() -> Figure) -> Figure {
    let Some(&second) = options.cpus.get(1) else { return measure() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = affinity::pin(second).ok();
            // Relaxed: a flag that only ends the thread; the scope's join orders everything else.
            while !done.load(Ordering::Relaxed) {
                spin_loop();
            }
        });
        let figure = measure();
        done.store(true, Ordering::Relaxed);
        figure
    })
}
