//! The fuzzers, for a few seeds. `interleaf check fuzz` plays others.

mod runs;

use interleaf_check::fuzz::{Fuzzer, Parsers, Spaces};
use std::collections::BTreeMap;

/// Plays the cases of `seeds`; returns the executions of each target.
fn play(fuzzer: &mut dyn Fuzzer, seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    let mut executions = BTreeMap::new();
    for seed in seeds {
        match fuzzer.play(seed) {
            Ok(played) => *executions.entry(played.target).or_default() += played.executions,
            Err(what) => panic!("case {seed}: {what}\n{}", fuzzer.shortest(seed)),
        }
    }
    executions
}

#[test]
fn spaces_stand_random_operations_and_every_failed_allocation() {
    let mut spaces = Spaces::new().expect("machines");
    let executions = play(&mut spaces, 0..600);
    println!("{executions:?}");
    let at_least = [
        ("calls against the model", 10_000),
        ("everything, recounted", 10_000),
        ("every allocation refused", 200),
        ("refused while others fault", 40),
    ];
    for (target, least) in at_least {
        assert!(executions[target] >= least, "{executions:?}");
    }
}

#[test]
fn a_case_is_a_function_of_its_seed() {
    let mut spaces = Spaces::new().expect("machines");
    assert_eq!(play(&mut spaces, 7..40), play(&mut Spaces::new().expect("machines"), 7..40));
}

#[test]
fn parsers_stand_inputs_that_others_have_changed() {
    let executions = play(&mut Parsers::new(&[]), 0..300);
    assert!(executions.len() == 14 && executions.values().all(|inputs| *inputs > 100), "{executions:?}");
}
