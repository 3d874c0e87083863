//! Threads that start together, one on each of some host CPUs.

use crate::os::affinity;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Runs `work` on every one of `cpus` at once, each call with its index in `cpus`, and returns the time from
/// the common start to the end of the last. Give no more CPUs than the host has, and each once: the threads
/// wait for each other without sleeping.
pub fn together(cpus: &[usize], work: impl Fn(usize) + Sync) -> Duration {
    let arrived = AtomicUsize::new(0);
    let member = |index: usize| {
        // Unpinned is slower, not wrong: a host that forbids pinning still gets a figure.
        let _pinned = affinity::pin(cpus[index]).ok();
        // AcqRel: only counts; the loads below see the other members' additions to it.
        arrived.fetch_add(1, Ordering::AcqRel);
        while arrived.load(Ordering::Acquire) < cpus.len() {
            spin_loop();
        }
        let start = Instant::now();
        work(index);
        (start, Instant::now())
    };
    let member = &member;
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus.len()).map(|index| scope.spawn(move || member(index))).collect();
        threads.into_iter().map(|t| t.join().expect("a pinned thread panicked")).collect()
    });
    let start = times.iter().map(|t| t.0).min();
    let end = times.iter().map(|t| t.1).max();
    start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start)
}

/// How often per second `work` is done by all of `cpus` together, when each does it `times` times.
pub fn rate(cpus: &[usize], times: u64, work: impl Fn(usize) + Sync) -> f64 {
    let took = together(cpus, |index| (0..times).for_each(|_| work(index)));
    cpus.len() as f64 * times as f64 / took.as_secs_f64()
}

#[cfg(test)]
#[path = "tests/pinned_threads.rs"]
mod tests;
