//! Benchmarks, at small size.

use interleaf_lab::measure::bench::{BENCHMARKS, Options, sim};
use interleaf_lab::measure::predicted::Predicted;
use std::collections::HashSet;

/// All are run by `bench --small --check`, a step of the tests, which refuses figures that are not named.
#[test]
fn garbage_is_told_where_a_benchmarks_machines_run_the_library() {
    let told = |name: &str| {
        let benchmark = BENCHMARKS.iter().find(|benchmark| benchmark.name == name).expect("it is there");
        benchmark.measure(&Options::small()).expect("the host has memory").1.is_some()
    };
    assert_eq!(["space", "sync"].map(told), [true, false]);
}

/// With a prediction as `interleaf predict --json` prints it.
#[test]
fn two_cpus_are_compared_with_what_is_predicted_of_them() {
    let options = Options::small();
    let predicted = |_: &str| {
        Predicted::read(
            br#"{"points": [{"path": "speculative", "rate_per_cpu": {"value": 10000000.0, "low": 1.0}},
                            {"path": "locked", "rate_per_cpu": {"value": 2500000.0}}], "seed": 1}"#,
        )
    };
    if options.cpus.len() < 2 {
        return;
    }
    let figures = sim::figures(&options, None, predicted).expect("the host has memory");
    let names: Vec<_> = figures.iter().map(|figure| figure.name).collect();
    assert_eq!(names, sim::BENCHMARK.figures);
    let yardsticks: Vec<_> = figures.iter().map(|figure| figure.yardstick_value).collect();
    assert_eq!(yardsticks[..3], [Some(4.0), Some(100.0), Some(400.0)]);
    for figure in figures {
        assert!(figure.ratio.is_some_and(|ratio| ratio > 0.0) && figure.low <= figure.high, "{figure:?}");
        assert_eq!(figure.verdict, None, "{figure:?}");
    }
}

#[test]
fn what_is_no_prediction_is_refused() {
    assert!(Predicted::read(b"{}").is_err() && Predicted::read(b"").is_err());
    let none = Predicted::read(br#"{"points": []}"#).expect("no points").ns("locked");
    assert!(none.unwrap_err().to_string().contains("nothing about the locked path"));
}

#[test]
fn names_are_unique_and_bear_their_area() {
    let mut seen = HashSet::new();
    for benchmark in BENCHMARKS {
        assert!(seen.insert(benchmark.name), "{} twice", benchmark.name);
        assert!(benchmark.question.ends_with('?'), "{} asks nothing", benchmark.name);
        for figure in benchmark.figures {
            assert!(seen.insert(figure), "{figure} twice");
            assert_eq!(figure.split('.').next(), Some(benchmark.area()), "{figure}");
            assert_eq!(figure.split('.').count(), 2, "{figure} is not area.figure");
        }
    }
}

#[test]
fn a_filter_names_an_area_a_benchmark_or_a_figure() {
    let memset = &BENCHMARKS[0];
    for filter in ["machine", "machine.memset", "machine.memset_cold"] {
        assert!(memset.is_named_by(filter), "{filter}");
    }
    assert!(!memset.is_named_by("machine.mem"));
    assert!(memset.wants("machine.memset_cold", "machine.memset_cold"));
    assert!(!memset.wants("machine.memset_cold", "machine.memset_warm"));
}
