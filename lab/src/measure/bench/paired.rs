//! Pairs: two pieces of code timed turn by turn, so that what the machine does to one it does to both.
//!
//! A time on a shared machine means little: the same code takes a quarter more a second later. A *ratio* of
//! two times taken within milliseconds means much more, and the median of 31 such ratios more again. What is
//! left is measured too: our side runs twice in every round, and the ratio of it with itself (A/A) says what
//! this run can resolve. One round, and the next with the two runs of ours changing places, so that nobody
//! always goes first:
//!
//! ```text
//! round 0    ours   yardstick   ours'        ratio = ours / yardstick
//! round 1    ours'  yardstick   ours         A/A   = ours' / ours
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

/// As [`ns_per`], on a machine that has come to rest, but for who works here: threads that earlier work has
/// left look for more for a while, and they are not this work's.
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
    let rounds = rounds(options.pairs, &mut ours, theirs);
    let values: Vec<f64> = rounds.iter().map(|r| r.ours).collect();
    let yardsticks: Vec<f64> = rounds.iter().map(|r| r.between).collect();
    let ratios: Vec<f64> = rounds.iter().map(|r| r.ours / r.between).collect();
    let figure = Figure::timed(name, unit, &values, aa(&rounds)).against(
        yardstick,
        Median::of(&yardsticks).middle,
        Median::of(&ratios),
    );
    judged_at_full_size(options, figure)
}

/// Times `ours` alone, and against itself, in as many rounds as there would be pairs.
pub fn alone(
    options: &Options,
    name: &'static str,
    unit: &'static str,
    mut ours: impl FnMut() -> f64,
) -> Figure {
    let rounds = rounds(options.pairs, &mut ours, || 0.0);
    let values: Vec<f64> = rounds.iter().map(|r| r.ours).collect();
    judged_at_full_size(options, Figure::timed(name, unit, &values, aa(&rounds)))
}

fn judged_at_full_size(options: &Options, figure: Figure) -> Figure {
    if options.small { figure.unjudged() } else { figure }
}

/// What one round gave.
struct Round {
    ours: f64,
    between: f64,
    again: f64,
}

fn rounds(pairs: usize, ours: &mut impl FnMut() -> f64, mut between: impl FnMut() -> f64) -> Vec<Round> {
    ours();
    between();
    let round = |index: usize| {
        let (first, between, last) = (ours(), between(), ours());
        let (ours, again) = if index.is_multiple_of(2) { (first, last) } else { (last, first) };
        Round { ours, between, again }
    };
    (0..pairs).map(round).collect()
}

fn aa(rounds: &[Round]) -> Median {
    Median::of(&rounds.iter().map(|r| r.again / r.ours).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn the_ratio_is_ours_by_theirs_and_the_first_run_of_each_is_thrown_away() {
        let (mut a, mut b) = (0, 0);
        let ours = || {
            a += 1;
            if a == 1 { 1e9 } else { 30.0 }
        };
        let theirs = || {
            b += 1;
            if b == 1 { 1e9 } else { 20.0 }
        };
        let figure = paired(&Options::full(), "test.ratio", "ns", ours, "theirs", theirs);
        assert_eq!((figure.ratio, figure.aa, figure.aa_spread), (Some(1.5), Some(1.0), Some(0.0)));
        assert_eq!((figure.value, figure.yardstick_value, figure.samples), (30.0, Some(20.0), 31));
        assert_eq!((a, b), (63, 32));
    }

    #[test]
    fn the_sides_take_turns() {
        let order = RefCell::new(String::new());
        let side = |letter| {
            let order = &order;
            move || {
                order.borrow_mut().push(letter);
                1.0
            }
        };
        let options = Options { pairs: 2, ..Options::full() };
        paired(&options, "test.turns", "ns", side('o'), "theirs", side('y'));
        assert_eq!(order.into_inner(), "oyoyooyo");
    }

    #[test]
    fn a_machine_that_slows_down_steadily_changes_no_ratio() {
        let now = Cell::new(1000.0);
        let slower = || {
            now.set(now.get() * 1.01);
            now.get()
        };
        let figure = paired(&Options::full(), "test.drift", "ns", slower, "theirs", slower);
        assert!(figure.low < 1.0 && figure.high > 1.0);
        assert!((figure.ratio.unwrap() - 1.0).abs() < 0.011, "{figure:?}");
    }

    #[test]
    fn a_side_compared_with_itself_alone_has_a_spread() {
        let mut calls = 0.0;
        let restless = || {
            calls += 1.0;
            100.0 + (calls * 7.0) % 5.0
        };
        let figure = alone(&Options::full(), "test.alone", "ns", restless);
        assert!(figure.aa_spread.unwrap() > 0.0);
        assert_eq!((figure.ratio, figure.yardstick), (None, None));
    }
}
