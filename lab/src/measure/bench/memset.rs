//! What does zeroing a frame cost this machine, by how recently the frame was used?
//!
//! A fault that gives out a frame zeroes it, so nothing in this project can be faster than this. Warm is one
//! frame again and again, which stays in the first cache; cold walks an arena far larger than the caches. The
//! curve shows what lies between.

use super::{Arena, Benchmark, Figure, Options, alone, ns_per, paired};
use crate::error::Failure;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "machine.memset",
    question: "What does zeroing a 4 KiB frame cost, warm and cold?",
    figures: &["machine.memset_warm", "machine.memset_cold"],
    run,
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let _pinned = options.pin();
    let mut warm = Arena::new(4 * KIB);
    let mut cold = Arena::new(options.size(256 * MIB, MIB));
    let times = options.size(4096, 64);
    let figures = vec![
        alone(options, "machine.memset_warm", "ns", || zero(&mut warm, times)),
        paired(
            options,
            "machine.memset_cold",
            "ns",
            || zero(&mut cold, times),
            "the same, warm",
            || zero(&mut warm, times),
        )
        .with_curve("arena, KiB", curve(options)),
    ];
    Ok(figures)
}

/// Nanoseconds for one frame, taken in turn from `arena`.
fn zero(arena: &mut Arena, times: u64) -> f64 {
    ns_per(times, || arena.next_frame().zero())
}

fn curve(options: &Options) -> Vec<(f64, f64)> {
    let largest = options.size(64 * MIB, 16 * KIB);
    let sizes = std::iter::successors(Some(4 * KIB), |size| Some(size * 4)).take_while(|&s| s <= largest);
    sizes.map(|bytes| (bytes as f64 / KIB as f64, fastest_of_three(bytes))).collect()
}

/// The fastest of three walks: a point of a curve is not judged, so it need not bear an interval.
fn fastest_of_three(bytes: usize) -> f64 {
    let mut arena = Arena::new(bytes);
    let times = arena.nr_frames().max(512) as u64;
    (0..3).map(|_| zero(&mut arena, times)).fold(f64::INFINITY, f64::min)
}
