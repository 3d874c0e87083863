//! Runs of the fuzzers: what ends them, and what a failure says.

use interleaf_check::fuzz::{FuzzConfig, FuzzFailure, FuzzLimit, FuzzReport, Group, Parser, Runner};
use interleaf_lab::show::{Output, Progress};
use std::time::Duration;

/// A parser that cannot stand one byte.
const FAULTY: Parser =
    Parser { name: "faulty", weight: 1000, samples: || vec![b"a valid input".to_vec()], read: refuses_0x7f };

fn refuses_0x7f(input: &[u8]) {
    assert!(!input.contains(&0x7f), "the byte 0x7f");
}

fn config(limit: FuzzLimit, groups: &[Group], parsers: &[Parser]) -> FuzzConfig {
    FuzzConfig { seed: 7, limit, groups: groups.to_vec(), jobs: 2, parsers: parsers.to_vec() }
}

fn run(config: FuzzConfig) -> Result<FuzzReport, FuzzFailure> {
    Runner::new(config).run(&Progress::new(Output { json: true }, 1000))
}

#[test]
fn cases_follow_from_the_seed_alone() {
    let cases = |seed| {
        let runner = Runner::new(FuzzConfig { seed, ..config(FuzzLimit::Executions(1), &[], &[]) });
        Group::ALL.map(|group| [runner.next_case(group), runner.next_case(group)])
    };
    assert_eq!(cases(1), cases(1));
    let mut all: Vec<u64> = [cases(1), cases(2)].concat().concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * 2 * Group::ALL.len());
}

#[test]
fn an_input_that_brings_a_parser_down_is_found_shortened_and_played_again() {
    let config = config(FuzzLimit::Executions(1 << 20), &[Group::Parse], &[FAULTY]);
    let failure = run(config.clone()).expect_err("it comes within a few hundred inputs");
    let text = failure.to_string();
    assert!(text.contains("faulty: 1 bytes, \"\\x7f\"") && text.contains("the byte 0x7f"), "{text}");
    assert!(text.contains(&format!("--only parse --case {}", failure.case)), "{text}");
    let again = Runner::new(config).replay(Group::Parse, failure.case);
    assert_eq!(again.map(|_| ()), Err(failure));
}

#[test]
fn a_run_ends_when_there_were_as_many_executions_as_asked_for() {
    let report =
        run(config(FuzzLimit::Executions(3000), &[Group::Space, Group::Parse], &[])).expect("it holds");
    assert!((3000..9000).contains(&report.executions), "{}", report.executions);
    assert_eq!(report.executions, report.rows.iter().map(|row| row.executions).sum::<u64>());
    for group in [Group::Space, Group::Parse] {
        assert!(report.rows.iter().any(|row| row.group == group), "{}", report.text());
    }
}

#[test]
fn a_run_ends_when_its_time_is_over() {
    let report =
        run(config(FuzzLimit::Time(Duration::from_millis(300)), &[Group::Parse], &[])).expect("it holds");
    assert!(report.executions > 100 && report.seconds < 30.0, "{}", report.text());
}
