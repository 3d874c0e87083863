//! Random sequences of several processes, and fork rule by rule.

use crate::world::{
    PRIVATE, R, RW, SHARED, advise, map, map_as, mincore, oracle, page, protect, read, write,
};
use interleaf_check::calls::{Call, CallResult, Errno, advice};
use interleaf_check::processes::{
    MemoryState, ModelProcesses, ProcessStep, ProcessSystem, StepOutcome, StepResult, compare_processes,
    process_sequence,
};
use interleaf_check::setting::Setting;

/// A number from the environment: `SEED=7 SEEDS=1` plays the one sequence of seed 7.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn model_and_linux_agree_on_processes_that_fork() {
    let Some(mut linux) = oracle() else { return };
    let setting = linux.setting().clone();
    let mut model = ModelProcesses::new(setting.clone());
    let first = number("SEED", 0);
    for seed in first..first + number("SEEDS", 300) {
        let steps = process_sequence(seed, 40, &setting);
        if let Some(difference) = compare_processes(&mut model, &mut linux, &steps) {
            panic!("seed {seed}:\n{difference}");
        }
    }
}

fn call(process: usize, call: Call) -> ProcessStep {
    ProcessStep::Call { process, call }
}

const FORK: ProcessStep = ProcessStep::Fork { process: 0, child: 1 };

/// What the model and Linux say to `steps`: the same.
fn outcomes(steps: &[ProcessStep]) -> Vec<StepOutcome> {
    let mut oracle = oracle();
    let setting = oracle.as_ref().map_or_else(Setting::default, |oracle| oracle.setting().clone());
    let said = ModelProcesses::new(setting).run(steps);
    if let Some(oracle) = &mut oracle {
        let asked = ProcessSystem::run(oracle, steps);
        assert_eq!(asked, said, "Linux says the left");
    }
    said
}

/// The memory of a process in the end.
fn state(steps: &[ProcessStep], process: usize) -> MemoryState {
    let last = outcomes(steps).pop().expect("there are steps");
    last.states.into_iter().find(|(number, _)| *number == process).expect("it lives").1
}

fn last(steps: &[ProcessStep]) -> StepResult {
    outcomes(steps).pop().expect("there are steps").result
}

fn byte(value: u8) -> StepResult {
    StepResult::Answer(CallResult::Byte(value))
}

#[test]
fn neither_sees_what_the_other_writes() {
    let begin = [call(0, map(0..2, RW)), call(0, write(0)), FORK];
    let other = Call::Write { addr: page(0), value: 9 };
    assert_eq!(last(&[&begin[..], &[call(0, other), call(1, read(0))]].concat()), byte(7));
    assert_eq!(last(&[&begin[..], &[call(1, other), call(0, read(0))]].concat()), byte(7));
    let end = ProcessStep::End { process: 1 };
    let grandchild = ProcessStep::Fork { process: 1, child: 2 };
    assert_eq!(last(&[&begin[..], &[grandchild, call(0, other), end, call(2, read(0))]].concat()), byte(7));
}

#[test]
fn shared_memory_stays_shared() {
    let steps = [call(0, map_as(0..2, RW, SHARED)), FORK, call(1, write(1)), call(0, read(1))];
    assert_eq!(last(&steps), byte(7));
}

#[test]
fn advice_decides_what_a_child_gets() {
    let begin = [call(0, map(0..3, RW)), call(0, write(0)), call(0, write(1)), call(0, write(2))];
    let advised = [call(0, advise(0..1, advice::WIPEONFORK)), call(0, advise(1..2, advice::DONTFORK)), FORK];
    let steps = [&begin[..], &advised].concat();
    let child = state(&steps, 1);
    assert_eq!(child.map.len(), 2, "{child:#x?}");
    assert!(child.advice.len() == 1 && child.advice[0].wipe_on_fork, "a child keeps the advice to wipe");
    assert_eq!(child.pages.len(), 1);
    assert_eq!(last(&[&steps[..], &[call(1, read(0))]].concat()), byte(0));
    let back = [call(0, advise(0..2, advice::KEEPONFORK)), call(0, advise(0..2, advice::DOFORK))];
    let steps = [&begin[..], &advised[..2], &back, &[FORK]].concat();
    assert_eq!(state(&steps, 1).pages.len(), 3);
}

#[test]
fn only_private_anonymous_memory_is_wiped() {
    let wipe = call(0, advise(0..1, advice::WIPEONFORK));
    let refused = StepResult::Answer(CallResult::Error(Errno::EINVAL));
    assert_eq!(last(&[call(0, map_as(0..1, RW, SHARED)), wipe]), refused);
    let dont = call(0, advise(0..1, advice::DONTFORK));
    let done = StepResult::Answer(CallResult::Value(0));
    assert_eq!(last(&[call(0, map_as(0..1, RW, SHARED)), dont]), done);
    assert_eq!(last(&[call(0, map_as(0..1, RW, PRIVATE)), wipe]), done);
}

/// A child's mappings with copies join neither with each other, where they were split at the fork, nor with
/// new ones.
#[test]
fn what_a_child_has_inherited_does_not_merge_with_what_is_new() {
    let begin = [call(0, map(0..2, RW)), call(0, write(0)), FORK];
    let beside = |process| call(process, map(2..4, RW));
    assert_eq!(state(&[&begin[..], &[beside(0)]].concat(), 0).map.len(), 1);
    assert_eq!(state(&[&begin[..], &[beside(1)]].concat(), 1).map.len(), 2);
    let halves = [call(0, map(0..2, RW)), call(0, write(0)), call(0, protect(1..2, R)), FORK];
    let whole = |process| call(process, protect(1..2, RW));
    assert_eq!(state(&[&halves[..], &[whole(0)]].concat(), 0).map.len(), 1);
    assert_eq!(state(&[&halves[..], &[whole(1)]].concat(), 1).map.len(), 2);
}

#[test]
fn zero_pages_are_resident_in_a_child_beside_copies_alone() {
    let begin = [call(0, map(0..2, RW)), call(0, read(0))];
    let ask = call(1, mincore(0..1));
    let resident = |byte| StepResult::Answer(CallResult::Resident(vec![byte], None));
    assert_eq!(last(&[&begin[..], &[FORK, ask]].concat()), resident(0));
    assert_eq!(last(&[&begin[..], &[call(0, write(1)), FORK, ask]].concat()), resident(1));
}

/// Each of two mappings can be committed; as the one that they are after mprotect, they cannot.
#[test]
fn a_fork_commits_the_memory_of_each_mapping_again() {
    let setting = crate::world::setting();
    let (start, half) = (setting.windows[1].start, setting.memory_pages / 2 + 1);
    let some = |nr: u64, prot| Call::Mmap {
        hint: start + nr * half * 4096,
        len: half * 4096,
        prot,
        flags: PRIVATE | interleaf_check::calls::MapFlags::FIXED,
    };
    let halves = [call(0, some(0, RW)), call(0, some(1, RW))];
    let steps = [&halves[..], &[FORK]].concat();
    assert_eq!(last(&steps), StepResult::Forked(Err(Errno::ENOMEM)));
    let dont = call(0, Call::Madvise { addr: start, len: half * 4096, advice: advice::DONTFORK });
    assert_eq!(last(&[&halves[..], &[dont, FORK]].concat()), StepResult::Forked(Ok(())));
    let wipe = call(0, Call::Madvise { addr: start, len: 2 * half * 4096, advice: advice::WIPEONFORK });
    assert_eq!(last(&[&halves[..], &[wipe, FORK]].concat()), StepResult::Forked(Err(Errno::ENOMEM)));
}
