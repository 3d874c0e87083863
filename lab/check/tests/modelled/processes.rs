//! The library against the obvious model, in several processes that fork: random steps, and after each the
//! same answer, maps, advice, pages and contents.

use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, Sv48, X86_64, X86_64La57};
use interleaf_check::calls::{Call, PageState};
use interleaf_check::library::Library;
use interleaf_check::processes::{
    MemoryState, ModelProcesses, ProcessStep, ProcessSystem, StepOutcome, StepResult, compare_processes,
    process_sequence,
};
use interleaf_check::setting::{InheritedZeroPages, Setting};
use std::collections::BTreeMap;
use std::ops::Range;

fn setting() -> Setting {
    Setting { zero_pages: InheritedZeroPages::Everywhere, ..Setting::default() }
}

fn agrees<F: Format>(path: Path, seeds: Range<u64>) {
    let setting = setting();
    let mut library = Library::<F>::new(setting.clone(), path).expect("a machine");
    let mut model = ModelProcesses::new(setting.clone());
    for seed in seeds {
        let steps = process_sequence(seed, 40, &setting);
        if let Some(difference) = compare_processes(&mut model, &mut library, &steps) {
            panic!("seed {seed}, {}, {path:?}:\n{difference}", F::NAME);
        }
    }
}

#[test]
fn processes_whose_faults_speculate_agree_with_the_model() {
    agrees::<X86_64>(Path::Speculative, 0..200);
    agrees::<Aarch64>(Path::Speculative, 200..400);
}

#[test]
fn processes_whose_faults_take_the_lock_agree_with_the_model() {
    agrees::<Aarch64>(Path::Locked, 400..600);
    agrees::<X86_64La57>(Path::Locked, 600..700);
    agrees::<Sv48>(Path::Locked, 700..800);
}

#[test]
fn sequences_of_processes_are_reproducible_and_rich() {
    let setting = setting();
    let (mut forks, mut refused, mut ends, mut most, mut alike, mut apart) = (0, 0, 0, 0, 0, 0);
    for seed in 0..300 {
        let steps = process_sequence(seed, 40, &setting);
        assert_eq!(steps, process_sequence(seed, 40, &setting));
        for outcome in ModelProcesses::new(setting.clone()).run(&steps) {
            match outcome.result {
                StepResult::Forked(Ok(())) => forks += 1,
                StepResult::Forked(Err(_)) => refused += 1,
                StepResult::Ended => ends += 1,
                StepResult::Answer(_) | StepResult::Skipped => {}
            }
            most = most.max(outcome.states.len());
            let own = |(page, state)| matches!(state, PageState::Own(_)).then_some((page, state));
            let pages =
                |(_, state): &(usize, MemoryState)| state.pages.iter().copied().filter_map(own).collect();
            let all: Vec<BTreeMap<u64, PageState>> = outcome.states.iter().map(pages).collect();
            for (page, state) in all.iter().skip(1).flatten() {
                match all[0].get(page) {
                    Some(same) if same == state => alike += 1,
                    Some(_) => apart += 1,
                    None => {}
                }
            }
        }
    }
    let counts = format!("{forks} forks, {refused} refused, {ends} ends, {alike} pages alike, {apart} apart");
    println!("{counts}");
    assert!(forks > 300 && refused > 0 && ends > 100 && most == 4 && alike > 500 && apart > 50, "{counts}");
}

/// A model with a fault: what process 1 writes, process 0 writes too.
struct Faulty(ModelProcesses);

impl ProcessSystem for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    fn run(&mut self, steps: &[ProcessStep]) -> Vec<StepOutcome> {
        let twice = |step: &ProcessStep| match *step {
            ProcessStep::Call { process: 1, call: call @ Call::Write { .. } } => {
                vec![*step, ProcessStep::Call { process: 0, call }]
            }
            _ => vec![*step],
        };
        let more: Vec<_> = steps.iter().map(twice).collect();
        let mut outcomes = self.0.run(&more.concat()).into_iter();
        let each = more.iter().map(|steps| {
            let first = outcomes.next().expect("each step has one");
            let states = outcomes.by_ref().take(steps.len() - 1).last().map(|outcome| outcome.states);
            StepOutcome { result: first.result, states: states.unwrap_or(first.states) }
        });
        each.collect()
    }
}

#[test]
fn a_write_that_reaches_the_parent_is_found_and_told_in_few_steps() {
    let setting = setting();
    let (mut model, mut faulty) =
        (ModelProcesses::new(setting.clone()), Faulty(ModelProcesses::new(setting.clone())));
    let mut compare =
        |seed| compare_processes(&mut model, &mut faulty, &process_sequence(seed, 40, &setting));
    let differences: Vec<_> = (0..100).filter_map(&mut compare).collect();
    assert!(differences.len() > 5, "{} found", differences.len());
    for difference in differences {
        assert!(difference.steps.len() <= 5, "\n{difference}");
    }
}
