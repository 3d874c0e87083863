//! Pairs: two pieces of code timed turn by turn, so that what the machine does to one it does to both.
//!
//! A time on a shared machine means little: the same code takes a quarter more a second later. A *ratio* of
//! two times taken within milliseconds means much more, and the median of 31 such ratios more again. The
//! remaining noise is measured too: our side runs twice in every iteration, and its ratio with itself (A/A)
//! says what this run can resolve. The two runs of ours change places from one iteration to the next, so that
//! neither always goes first:
//!
//! ```text
//! iteration 0    ours   yardstick   ours'        ratio = ours / yardstick
//! iteration 1    ours'  yardstick   ours         A/A   = ours' / ours
//! ```
//!
//! A side is a closure that does its work once and returns what it took, per operation, in the figure's unit
//! (mostly nanoseconds; [`ns_per`] does that). It may prepare outside of what it times. The first run of each
//! side is thrown away.

use super::Options;
use super::figure::Figure;
use crate::median::Median;
use std::time::{Duration, Instant};

/// Runs `work` `times` times and returns the nanoseconds that one took.
pub fn ns_per(times: u64, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        work();
    }
    start.elapsed().as_nanos() as f64 / times as f64
}

/// As [`ns_per`], on a machine at rest: threads of earlier work keep polling for a while, and must not
/// disturb this work.
pub fn ns_per_rested(times: u64, mut work: impl FnMut()) -> f64 {
    std::thread::sleep(Duration::from_millis(2));
    work();
    ns_per(times, work)
}

/// Times `ours` against `theirs` in [`Options::pairs`] interleaved pairs.
pub fn paired(
    options: &Options,
    name: &'static str,
    unit: &'static str,
    mut ours: impl FnMut() -> f64,
    yardstick: &'static str,
    theirs: impl FnMut() -> f64,
) -> Figure {
    let iterations = iterations(options.pairs, &mut ours, theirs);
    let values: Vec<f64> = iterations.iter().map(|r| r.ours).collect();
    let yardsticks: Vec<f64> = iterations.iter().map(|r| r.between).collect();
    let ratios: Vec<f64> = iterations.iter().map(|r| r.ours / r.between).collect();
    let figure = Figure::timed(name, unit, &values, aa(&iterations)).against(
        yardstick,
        Median::of(&yardsticks).middle,
        Median::of(&ratios),
    );
    judged_at_full_size(options, figure)
}

/// Times `ours` alone, and against itself, in as many iterations as there would be pairs.
pub fn alone(
    options: &Options,
    name: &'static str,
    unit: &'static str,
    mut ours: impl FnMut() -> f64,
) -> Figure {
    let iterations = iterations(options.pairs, &mut ours, || 0.0);
    let values: Vec<f64> = iterations.iter().map(|r| r.ours).collect();
    judged_at_full_size(options, Figure::timed(name, unit, &values, aa(&iterations)))
}

fn judged_at_full_size(options: &Options, figure: Figure) -> Figure {
    if options.small { figure.unjudged() } else { figure }
}

/// What one iteration gave.
struct Iteration {
    ours: f64,
    between: f64,
    again: f64,
}

fn iterations(
    pairs: usize,
    ours: &mut impl FnMut() -> f64,
    mut between: impl FnMut() -> f64,
) -> Vec<Iteration> {
    ours();
    between();
    let iteration = |index: usize| {
        let (first, between, last) = (ours(), between(), ours());
        let (ours, again) = if index.is_multiple_of(2) { (first, last) } else { (last, first) };
        Iteration { ours, between, again }
    };
    (0..pairs).map(iteration).collect()
}

fn aa(iterations: &[Iteration]) -> Median {
    Median::of(&iterations.iter().map(|r| r.again / r.ours).collect::<Vec<_>>())
}

#[cfg(test)]
#[path = "tests/paired.rs"]
mod tests;
