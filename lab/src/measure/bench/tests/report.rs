//! Verdicts of a run.

use super::*;
use crate::measure::bench::Bar;
use crate::median::Median;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const QUIET: Median = Median { middle: 1.0, low: 1.0, high: 1.0 };

fn ratio(name: &'static str, low: f64, high: f64) -> Figure {
    let ratio = Median { middle: (low + high) / 2.0, low, high };
    Figure::timed(name, "ns", &[1.0; 3], QUIET).against("theirs", 1.0, ratio).with_bar(Bar::AtMost(1.0))
}

fn options() -> Options {
    Options { pairs: 31, ..Options::full() }
}

/// How often the benchmark below has run.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Tells one figure at once, one when there are four times the pairs, one never; one is disturbed at first,
/// and one misses its bar, however often it is measured.
fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    RUNS.fetch_add(1, SeqCst);
    let more = if options.pairs >= 124 { 0.95 } else { 1.05 };
    let at_once = if options.pairs > 31 { 2.0 } else { 0.8 };
    let disturbed = if options.pairs > 31 { 0.7 } else { 1.2 };
    Ok(vec![
        ratio("test.at_once", 0.7, at_once),
        ratio("test.with_more", 0.9, more),
        ratio("test.never", 0.9, 1.1),
        ratio("test.disturbed", disturbed, disturbed + 0.1),
        ratio("test.missed", 1.2, 1.3),
    ])
}

const BENCHMARK: Benchmark = Benchmark {
    name: "test",
    question: "what is measured again?",
    figures: &["test.at_once", "test.with_more", "test.never", "test.disturbed", "test.missed"],
    run,
};

#[test]
fn what_cannot_be_told_is_measured_again_with_more_pairs_and_not_for_ever() {
    let verdicts: Vec<_> =
        measured(&BENCHMARK, &options(), |_| true).unwrap().0.iter().filter_map(|f| f.verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Yes, Verdict::Yes, Verdict::CannotTell, Verdict::Yes, Verdict::No],
        "a time that misses its bar is measured again too, and the last measurement counts"
    );
    assert_eq!(RUNS.swap(0, SeqCst), 3);
    measured(&BENCHMARK, &options(), |name| name == "test.at_once").unwrap();
    assert_eq!(RUNS.load(SeqCst), 1, "only what is asked for is measured again");
}

fn report(figures: Vec<Figure>) -> Report {
    let setting = HostInfo::of_this_machine();
    let (context, garbage) = (Vec::new(), Vec::new());
    Report { setting, profile: "figures", seed: 1, small: false, whole: false, context, figures, garbage }
}

#[test]
fn a_check_fails_on_a_miss_alone_and_says_how_many_cannot_be_told() {
    let (met, open, missed) =
        (ratio("test.met", 0.7, 0.8), ratio("test.open", 0.9, 1.1), ratio("test.missed", 1.2, 1.3));
    assert_eq!(report(vec![met.clone(), open.clone()]).check(), Ok(()));
    let all = report(vec![met, open, missed]);
    let line = all.check().unwrap_err().to_string();
    assert_eq!(line, "1 of the bars missed: test.missed; 1 cannot be told");
    let text = all.text();
    assert!(text.contains("1 of 3 bars are met, 1 are not"), "{text}");
    assert!(text.contains("1 cannot be told: test.open"), "{text}");
}

#[test]
fn at_most_a_tenth_of_a_whole_run_cannot_be_told_and_no_count() {
    let met = ratio("test.met", 0.7, 0.8);
    let run = |met_count, whole| {
        let mut figures = vec![met.clone(); met_count];
        figures.push(ratio("test.open", 0.9, 1.1));
        Report { whole, ..report(figures) }
    };
    assert_eq!(run(9, true).check(), Ok(()));
    let line = run(8, true).check().unwrap_err().to_string();
    assert_eq!(line, "1 of 9 bars cannot be told, at most 0 may: test.open");
    assert_eq!(run(1, false).check(), Ok(()), "a part of the figures, or small ones");
    let mut count = Figure::count("test.count", 1.0, "bytes").with_bar(Bar::Exactly(1.0));
    count.verdict = Some(Verdict::CannotTell);
    let line = report(vec![met, count]).check().unwrap_err().to_string();
    assert_eq!(line, "counts that cannot be told, as no count may: test.count");
}

#[test]
fn the_machine_s_line_tells_its_power_too() {
    let text = report(Vec::new()).text();
    let line = text.lines().find(|line| line.starts_with("machine ")).unwrap();
    for word in ["governor ", "turbo ", "idle states "] {
        assert!(line.contains(word), "{line}");
    }
}
