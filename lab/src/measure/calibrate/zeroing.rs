//! Zeroing pages: by working set, on one CPU, and on two at a time.

use super::{Measured, Numbers, Samples};
use crate::measure::Options;
use crate::os::affinity;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

const PAGE: usize = 4096;
/// Working sets, pages: the first is in the caches of the CPU, the last in memory.
const SETS: [usize; 5] = [64, 128, 256, 512, 32_768];

pub(super) fn measure(options: &Options, cpus: (usize, usize), numbers: &mut Numbers) {
    let passes = options.size(100, 3);
    let mut sets = SETS;
    sets[4] = options.size(SETS[4], 2048);
    let alone: Vec<f64> = sets.iter().map(|&pages| of_page(&[cpus.0], pages, passes)).collect();
    let both = of_page(&[cpus.0, cpus.1], sets[4], passes);
    let how =
        |pages: usize| format!("fill of 4 KiB in a set of {pages} pages, 10th percentile of {passes} passes");
    let is_warm = |&(_, &ns): &(usize, &f64)| ns < alone[0] * 1.5;
    let warm = alone.iter().enumerate().take_while(is_warm).last().map_or(sets[0], |(at, _)| sets[at]);
    numbers.insert("page.warm", Measured::new(alone[0], how(sets[0])));
    numbers.insert("page.cold", Measured::new(alone[4], how(sets[4])));
    let how_far = format!("the largest set whose pages take less than 1.5 times those of {} pages", sets[0]);
    numbers.insert("page.warm-pages", Measured::new(warm as f64, how_far));
    let how = format!("{}, two CPUs at a time, half of it: the node gives at least that", how(sets[4]));
    numbers.insert("page.bandwidth", Measured::new(both / 2.0, how));
}

/// Nanoseconds for a page, the mean of the CPUs, all at it at the same time.
fn of_page(cpus: &[usize], pages: usize, passes: usize) -> f64 {
    let start = Barrier::new(cpus.len());
    let zero = &|cpu: usize| {
        let _pinned = affinity::pin(cpu).ok();
        let mut memory = vec![1u8; pages * PAGE];
        start.wait();
        let sample = || {
            let began = Instant::now();
            memory.chunks_exact_mut(PAGE).for_each(|page| black_box(page).fill(0));
            began.elapsed().as_nanos() as f64 / pages as f64
        };
        Samples::take(passes, sample).at(10)
    };
    thread::scope(|scope| {
        let workers: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || zero(cpu))).collect();
        let times = workers.into_iter().map(|worker| worker.join().expect("it only fills memory"));
        times.sum::<f64>() / cpus.len() as f64
    })
}
