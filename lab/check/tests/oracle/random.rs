//! Random sequences.

use crate::world::oracle;
use interleaf_check::calls::{Call, CallResult, Outcome, System};
use interleaf_check::compare::compare;
use interleaf_check::generate::sequence;
use interleaf_check::model::Model;
use interleaf_check::setting::Setting;

/// A number from the environment: `SEED=7 SEEDS=1` runs the one sequence of seed 7.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn model_and_linux_agree_on_random_sequences() {
    let Some(mut linux) = oracle() else { return };
    let setting = linux.setting().clone();
    let mut model = Model::new(setting.clone());
    let first = number("SEED", 0);
    for seed in first..first + number("SEEDS", 12_000) {
        let calls = sequence(seed, 40, &setting);
        if let Some(difference) = compare(&setting, &mut model, &mut linux, &calls) {
            panic!("seed {seed}:\n{difference}");
        }
    }
}

/// A model with one fault: it says that unmapping fails where nothing is mapped.
struct Faulty(Model);

impl System for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    fn run(&mut self, calls: &[Call]) -> Outcome {
        let mut outcome = self.0.run(calls);
        for (index, call) in calls.iter().enumerate() {
            let Call::Munmap { addr, .. } = *call else { continue };
            let before = self.0.run(&calls[..index]).map;
            let mapped = before.iter().any(|line| line.start <= addr && addr < line.end);
            if outcome.answers[index] == CallResult::Value(0) && !mapped && !before.is_empty() {
                outcome.answers[index] = CallResult::Value(1);
            }
        }
        outcome
    }
}

#[test]
fn a_difference_is_found_and_told_in_two_or_three_calls() {
    let setting = Setting::default();
    let (mut model, mut faulty) = (Model::new(setting.clone()), Faulty(Model::new(setting.clone())));
    let differences =
        (0..200).filter_map(|seed| compare(&setting, &mut model, &mut faulty, &sequence(seed, 40, &setting)));
    let differences: Vec<_> = differences.collect();
    assert!(differences.len() > 20, "{} found", differences.len());
    for difference in differences {
        assert!(difference.calls.len() <= 3, "\n{difference}");
        assert!(difference.to_string().contains("<--"));
    }
}

#[test]
fn sequences_are_reproducible_admitted_and_rich() {
    let setting = Setting::default();
    let (mut refused, mut done, mut segv) = (0, 0, 0);
    let mut longest_map = 0;
    for seed in 0..500 {
        let calls = sequence(seed, 40, &setting);
        assert_eq!(calls, sequence(seed, 40, &setting));
        assert!(calls.iter().all(|call| setting.admits(call)));
        let outcome = Model::new(setting.clone()).run(&calls);
        for answer in &outcome.answers {
            match answer {
                CallResult::Error(_) | CallResult::Resident(_, Some(_)) => refused += 1,
                CallResult::Segv(_) => segv += 1,
                _ => done += 1,
            }
        }
        longest_map = longest_map.max(outcome.map.len());
    }
    assert!(done > refused && refused > 500 && segv > 200, "{done} done, {refused} refused, {segv} SIGSEGV");
    assert!(longest_map >= 12, "longest map: {longest_map} lines");
}
