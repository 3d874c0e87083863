//! Single instructions.

use super::{Measured, Numbers, Samples};
use crate::measure::Options;
use crate::os::affinity;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering::*, fence};
use std::time::Instant;

/// Instructions in a sample.
const BATCH: u32 = 1000;

/// Measures on one CPU.
pub(super) fn measure(options: &Options, cpu: usize, numbers: &mut Numbers) {
    let _pinned = affinity::pin(cpu).ok();
    let (word, batches) = (AtomicU64::new(0), options.size(2000, 50));
    let load = of_one(batches, || black_box(word.load(Relaxed)));
    let update = of_one(batches, || black_box(word.fetch_add(1, AcqRel)));
    let full = of_one(batches, || {
        fence(SeqCst);
        black_box(word.load(Relaxed))
    });
    let pause = of_one(batches, spin_loop);
    let how = |what: &str| format!("{what}, 1st percentile of {batches} batches of {BATCH}");
    numbers.insert("update", Measured::new(update - load, how("fetch_add less a load")));
    numbers.insert("fence", Measured::new(full - load, how("fence(SeqCst) and a load, less a load")));
    numbers.insert("pause", Measured::new(pause, how("spin_loop")));
}

fn of_one<R>(batches: usize, mut act: impl FnMut() -> R) -> f64 {
    let sample = || {
        let began = Instant::now();
        for _ in 0..BATCH {
            act();
        }
        began.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    Samples::take(batches, sample).at(1)
}
