//! Every benchmark, at small size.

use interleaf_lab::measure::bench::{BENCHMARKS, Options};
use std::collections::HashSet;

/// The benchmarks whose machines run the library.
const WITH_LIBRARY: &[&str] = &[
    "fault",
    "space",
    "spaces.scaling",
    "spaces.systems",
    "spaces.waiting",
    "fair.munmap",
    "fork",
    "fork.beside",
    "fork.rmap",
    "paths",
    "index",
    "metadata",
    "replay",
    "replay.linear",
    "job.space",
    "pin",
    "walk",
    "thp",
    "thp.helped",
    "thp.beside",
    "thp.copy",
    "thp.sizes",
    "teardown",
    "teardown.beside",
];

/// Those that another program counts: `lab/check/tests/command_line.rs`.
const COUNTED: &[&str] = &["fair.waits", "spaces.shared"];

#[test]
fn every_benchmark_gives_the_figures_it_names_at_small_size() {
    let options = Options::small();
    for benchmark in BENCHMARKS.iter().filter(|benchmark| !COUNTED.contains(&benchmark.name)) {
        let measured = benchmark.measure(&options);
        let (figures, garbage) = measured.unwrap_or_else(|e| panic!("{}: {e}", benchmark.name));
        assert_eq!(garbage.is_some(), WITH_LIBRARY.contains(&benchmark.name), "{}", benchmark.name);
        let names: Vec<_> = figures.iter().map(|f| f.name).collect();
        assert_eq!(names, benchmark.figures, "{}", benchmark.name);
        for figure in figures {
            assert!(figure.value.is_finite() && figure.low <= figure.high, "{figure:?}");
        }
    }
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
