//! Going to sleep, waking, and interrupts: futex(2), and membarrier(2), which interrupts the other CPUs.

use super::{Measured, Numbers, Samples};
use crate::error::Failure;
use crate::measure::Options;
use crate::os::membarrier::Membarrier;
use crate::os::{affinity, futex};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread that is about to sleep is given to be asleep.
const UNTIL_ASLEEP: Duration = Duration::from_micros(50);

pub(super) fn measure(options: &Options, cpus: (usize, usize), numbers: &mut Numbers) -> Result<(), Failure> {
    let rounds = options.size(1000, 20);
    let (wake, latency) = wakes(cpus, rounds);
    let how = |what: &str| format!("{what}, median of {rounds}");
    numbers.insert("wake", Measured::new(wake.at(50), how("FUTEX_WAKE of a thread on another CPU")));
    let what = "from the return of FUTEX_WAKE until the thread reads its clock";
    numbers.insert("wake.latency", Measured::new(latency.at(50).max(0.0), how(what)));
    let _pinned = affinity::pin(cpus.0).ok();
    let word = AtomicU32::new(1);
    let refused = Samples::take(rounds, || time(|| futex::wait(&word, 0)));
    numbers
        .insert("sleep", Measured::new(refused.at(50), how("FUTEX_WAIT that is refused: the least of it")));
    let barrier = barrier(cpus, rounds)?.at(10);
    let how = format!("half of a membarrier(2) with a thread on another CPU, 10th percentile of {rounds}");
    numbers.insert("ipi.deliver", Measured::new(barrier / 2.0, how));
    Ok(())
}

fn time(act: impl FnOnce()) -> f64 {
    let began = Instant::now();
    act();
    began.elapsed().as_nanos() as f64
}

/// Times of waking a thread, and from there until it goes on; negative where it was faster.
fn wakes(cpus: (usize, usize), rounds: usize) -> (Samples, Samples) {
    let (word, woken_ns, start) = (AtomicU32::new(0), AtomicU64::new(0), Instant::now());
    let now = || start.elapsed().as_nanos() as u64;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = affinity::pin(cpus.1).ok();
            for round in 0..rounds as u32 {
                while word.load(Acquire) == round {
                    futex::wait(&word, round);
                }
                woken_ns.store(now(), Release);
            }
        });
        let _pinned = affinity::pin(cpus.0).ok();
        let mut latencies = Vec::new();
        let wakes = Samples::take(rounds, || {
            thread::sleep(UNTIL_ASLEEP);
            woken_ns.store(0, Relaxed);
            let began = now();
            word.fetch_add(1, Release);
            futex::wake(&word, 1);
            let done = now();
            while woken_ns.load(Acquire) == 0 {
                std::hint::spin_loop();
            }
            latencies.push(woken_ns.load(Acquire) as f64 - done as f64);
            (done - began) as f64
        });
        let mut latencies = latencies.into_iter();
        (wakes, Samples::take(rounds, || latencies.next().expect("one for each round")))
    })
}

/// Times of a barrier while a thread runs on another CPU.
fn barrier(cpus: (usize, usize), rounds: usize) -> Result<Samples, Failure> {
    let (membarrier, is_over) = (Membarrier::register()?, AtomicBool::new(false));
    Ok(thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = affinity::pin(cpus.1).ok();
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let _pinned = affinity::pin(cpus.0).ok();
        let samples = Samples::take(rounds, || time(|| membarrier.all_threads()));
        is_over.store(true, Relaxed);
        samples
    }))
}
