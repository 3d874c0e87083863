//! Lines: from one CPU to another, and from memory.

use super::{Measured, Numbers, Samples};
use crate::measure::Options;
use crate::os::affinity;
use crate::rng::Rng;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::Instant;

/// There and back in a sample.
const TURNS: u64 = 100;
/// Words of a line.
const WORDS: usize = 8;

/// A word on a line of its own.
#[repr(align(128))]
struct Alone(AtomicU64);

pub(super) fn measure(options: &Options, cpus: (usize, usize), numbers: &mut Numbers) {
    let batches = options.size(4000, 50);
    let how = format!("a word stored in turns by two CPUs, 1st percentile of {batches} batches of {TURNS}");
    numbers.insert("line.cluster", Measured::new(handoff(cpus, batches), how));
    let _pinned = affinity::pin(cpus.0).ok();
    for (name, mib) in [("line.llc", 8), ("memory.local", options.size(512, 16))] {
        let how = format!("a chain of loads through {mib} MiB, best of 3");
        numbers.insert(name, Measured::new(chain(mib << 20, options.size(1_000_000, 10_000)), how));
    }
}

/// How far two CPUs are apart now, in nanoseconds: a virtual machine's CPUs may be hardware threads of one
/// core at times, and of two at others.
pub fn apart_ns(cpus: (usize, usize)) -> f64 {
    handoff(cpus, 20)
}

/// Nanoseconds from the store of one CPU to the load of the other that sees it.
fn handoff(cpus: (usize, usize), batches: usize) -> f64 {
    let (word, is_over) = (Alone(AtomicU64::new(0)), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _pinned = affinity::pin(cpus.1).ok();
            while !is_over.load(Relaxed) {
                let value = word.0.load(Acquire);
                if value % 2 == 1 {
                    word.0.store(value + 1, Release);
                }
            }
        });
        let _pinned = affinity::pin(cpus.0).ok();
        let mut value = 0;
        let sample = || {
            let began = Instant::now();
            for _ in 0..TURNS {
                word.0.store(value + 1, Release);
                value += 2;
                while word.0.load(Acquire) != value {}
            }
            began.elapsed().as_nanos() as f64 / (2 * TURNS) as f64
        };
        let samples = Samples::take(batches, sample);
        is_over.store(true, Relaxed);
        samples.at(1)
    })
}

/// Nanoseconds of a load whose address is the value of the one before, the lines in random order.
fn chain(bytes: usize, steps: usize) -> f64 {
    let lines = bytes / 64;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut rng = Rng::new(1);
    (1..lines).rev().for_each(|at| order.swap(at, rng.below(at as u64 + 1) as usize));
    let mut next = vec![0u64; lines * WORDS];
    for pair in 0..lines {
        next[order[pair] as usize * WORDS] = u64::from(order[(pair + 1) % lines]) * WORDS as u64;
    }
    let mut at = 0;
    let sample = || {
        let began = Instant::now();
        (0..steps).for_each(|_| at = next[at as usize]);
        black_box(at);
        began.elapsed().as_nanos() as f64 / steps as f64
    };
    Samples::take(3, sample).at(0)
}
