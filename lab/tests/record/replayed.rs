//! Programs that check Linux's answers, recorded here and replayed: they are the library's answers too.

use crate::{Recorded, compiled, may_record, recording};
use interleaf::space::Path;
use interleaf_lab::replay::{DifferenceKind, Replay, Report};

/// Records a program of `tests/record/programs`, which must find what it expects, and replays it on both
/// paths.
fn replayed(program: &str, arguments: &[&str]) -> Option<Report> {
    if !may_record(program) {
        return None;
    }
    let path = compiled(&format!("replayed-{program}"), &format!("tests/record/programs/{program}.c"));
    let command: Vec<&str> = std::iter::once(&*path).chain(arguments.iter().copied()).collect();
    let Recorded { header, events, footer } = recording(&command);
    assert_eq!((footer.status, footer.lost), (0, 0), "{program} itself fails on this Linux");
    let replay = Replay::of(header, events).expect("a sound trace");
    let mut last = None;
    for path in [Path::Locked, Path::Speculative] {
        let report = replay.check(path, |_| ()).expect("there is memory");
        assert_eq!(report.unexplained, 0, "{program}, {path:?}: {}", report.text());
        assert_eq!(report.maps.agreed, report.maps.of, "{program}, {path:?}");
        last = Some(report);
    }
    last
}

#[test]
fn odd_words_of_mmap_are_answered_alike() {
    replayed("mmap_words", &[]);
}

#[test]
fn faults_that_end_in_signals_are_the_same_faults() {
    let Some(report) = replayed("fault_signals", &[]) else { return };
    assert_eq!(report.count_of(DifferenceKind::Refused) + report.count_of(DifferenceKind::Cause), 0);
}

#[test]
fn reservations_far_larger_than_memory_are_granted_and_refused_alike() {
    let Some(report) = replayed("reservations", &[]) else { return };
    assert_eq!(report.forks, 1);
}

#[test]
fn what_lies_before_a_locked_part_was_dropped() {
    replayed("locked_part", &[]);
    replayed("locked_part", &["all"]);
}
