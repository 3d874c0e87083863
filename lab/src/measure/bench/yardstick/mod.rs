//! What ours is held against: the crates a kernel would take today, each doing the work that ours does.
//!
//! Every function here returns a side for [`paired`](super::paired): a closure that does the work and returns
//! the nanoseconds of one operation. Where a choice had to be made, the yardstick got the faster one.

pub mod dispatch;
pub mod epoch;
pub mod frames;
pub mod jobs;
pub mod locks;
pub mod ranges;
pub mod spaces;

use super::{Benchmark, Figure, Options, alone};
use crate::error::Failure;

/// The yardsticks by themselves.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "yardstick",
    question: "What do the yardsticks cost by themselves, on this machine?",
    figures: &[
        "yardstick.buddy_fresh",
        "yardstick.buddy_used",
        "yardstick.buddy_batch",
        "yardstick.ax_space",
        "yardstick.rangemap_lookup",
        "yardstick.epoch_pin",
        "yardstick.rayon_dispatch",
    ],
    run,
};

fn ax_space(options: &Options) -> impl FnMut() -> f64 {
    spaces::map_touch_unmap(64, spaces::Frames::Stack, options.size(100, 4))
}

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let dispatch = dispatch::rayon_dispatch(&options.cpus, options.size(1000, 10))?;
    let _pinned = options.pin();
    let frames = options.size(1 << 18, 1 << 12);
    let times = options.size(10_000, 50);
    let ranges = options.size(10_000, 100);
    Ok(vec![
        alone(options, "yardstick.buddy_fresh", "ns", frames::buddy_pair_fresh(frames, times)),
        alone(options, "yardstick.buddy_used", "ns", frames::buddy_pair_used(frames, times)),
        alone(options, "yardstick.buddy_batch", "ns", frames::buddy_batch(frames, options.size(4096, 64))),
        alone(options, "yardstick.ax_space", "ns", ax_space(options)),
        alone(
            options,
            "yardstick.rangemap_lookup",
            "ns",
            ranges::rangemap_lookup(ranges, times, options.seed),
        ),
        alone(options, "yardstick.epoch_pin", "ns", epoch::pin(times)),
        alone(options, "yardstick.rayon_dispatch", "ns", dispatch),
    ])
}
