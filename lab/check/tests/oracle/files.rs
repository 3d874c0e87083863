//! A file in memory: mappings of it, shared and private, and what calls about its length, its holes and its
//! bytes leave of them.

use crate::world::{R, RW, oracle, page};
use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf_check::calls::{Call, CallResult, Errno, FILE_PAGES, FileCall, MapFlags, PAGE, REMOVE, System};
use interleaf_check::compare::compare;
use interleaf_check::generate_files::file_sequence;
use interleaf_check::library::Library;
use interleaf_check::model::Model;
use interleaf_check::processes::{
    ModelProcesses, ProcessStep, ProcessSystem, StepOutcome, StepResult, compare_processes,
    file_process_sequence,
};
use interleaf_check::setting::{InheritedZeroPages, Setting, StoredBeyondEnd};
use std::ops::Range;

const LONGEST: u64 = 40;

/// A number from the environment: `SEED=7 SEEDS=1` runs the one sequence of seed 7.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn agree(setting: &Setting, other: &mut dyn System, seeds: Range<u64>, removes: bool) {
    let mut model = Model::new(setting.clone());
    for seed in seeds {
        let mut calls = file_sequence(seed, LONGEST, setting);
        calls.retain(|call| removes || !matches!(call, Call::Madvise { advice: REMOVE, .. }));
        if let Some(difference) = compare(setting, &mut model, other, &calls) {
            panic!("seed {seed}:\n{difference}");
        }
    }
}

fn processes_agree(setting: &Setting, other: &mut dyn ProcessSystem, seeds: Range<u64>, removes: bool) {
    let mut model = ModelProcesses::new(setting.clone());
    for seed in seeds {
        let mut steps = file_process_sequence(seed, LONGEST, setting);
        let removed = |step: &ProcessStep| {
            matches!(step, ProcessStep::Call { call: Call::Madvise { advice: REMOVE, .. }, .. })
        };
        steps.retain(|step| removes || !removed(step));
        if let Some(difference) = compare_processes(&mut model, other, &steps) {
            panic!("seed {seed}:\n{difference}");
        }
    }
}

#[test]
fn model_and_linux_agree_on_a_file() {
    let Some(mut linux) = oracle() else { return };
    let setting = linux.setting().clone();
    let first = number("SEED", 0);
    agree(&setting, &mut linux, first..first + number("SEEDS", 6000), true);
}

#[test]
fn model_and_linux_agree_on_a_file_of_processes_that_fork() {
    let Some(mut linux) = oracle() else { return };
    let setting = linux.setting().clone();
    let first = number("SEED", 0);
    processes_agree(&setting, &mut linux, first..first + number("SEEDS", 200), true);
}

/// The library shows zeros where a file in memory of Linux shows what was stored beyond its end.
fn library_setting(reads_fill: bool) -> Setting {
    Setting {
        beyond_end: StoredBeyondEnd::Zeroed,
        zero_pages: InheritedZeroPages::Everywhere,
        reads_fill,
        failed_copy_counts: false,
        ..Setting::default()
    }
}

/// The seeds, or as many from the environment's on.
fn seeds_of(seeds: Range<u64>) -> Range<u64> {
    let (first, end) = (number("SEED", 0), seeds.end - seeds.start);
    seeds.start + first..seeds.start + first + number("SEEDS", end)
}

fn library_agrees<F: Format>(path: Path, seeds: Range<u64>) {
    let seeds = seeds_of(seeds);
    let setting = library_setting(false);
    let mut library = Library::<F>::new(setting.clone(), path).expect("a machine");
    agree(&setting, &mut library, seeds.clone(), true);
    processes_agree(
        &setting,
        &mut library,
        seeds.start..seeds.start + seeds.clone().count() as u64 / 8,
        true,
    );
}

#[test]
fn model_and_library_agree_on_a_file_in_memory() {
    library_agrees::<X86_64>(Path::Speculative, 0..1500);
    library_agrees::<X86_64>(Path::Locked, 1500..2500);
    library_agrees::<Aarch64>(Path::Speculative, 2500..3000);
}

fn disk_agrees<F: Format>(path: Path, seeds: Range<u64>) {
    let seeds = seeds_of(seeds);
    let setting = library_setting(true);
    let mut library = Library::<F>::new(setting.clone(), path).expect("a machine").with_disk();
    agree(&setting, &mut library, seeds.clone(), false);
    processes_agree(
        &setting,
        &mut library,
        seeds.start..seeds.start + seeds.clone().count() as u64 / 8,
        false,
    );
}

#[test]
fn model_and_library_agree_on_a_file_of_a_disk_that_has_all_of_it_in_the_end() {
    disk_agrees::<X86_64>(Path::Speculative, 3000..4000);
    disk_agrees::<X86_64>(Path::Locked, 4000..4500);
    disk_agrees::<Aarch64>(Path::VmaLock, 4500..5000);
}

/// Else they would show nothing.
#[test]
fn sequences_copy_pages_reach_beyond_the_end_and_are_refused() {
    let setting = Setting::default();
    let mut counts = [0; 9];
    for seed in 0..800 {
        let calls = file_sequence(seed, LONGEST, &setting);
        let outcome = Model::new(setting.clone()).run(&calls);
        for (call, answer) in calls.iter().zip(&outcome.answers) {
            let is_done = matches!(answer, CallResult::Value(_) | CallResult::Data(1.., _));
            let kind = match (call, answer) {
                (Call::Words { .. }, _) => 0,
                (_, CallResult::Bus) => 1,
                (Call::File(FileCall::Truncate { .. }), _) if is_done => 2,
                (Call::File(FileCall::PunchHole { .. }), _) if is_done => 3,
                (Call::File(FileCall::Read { .. } | FileCall::Write { .. }), _) if is_done => 4,
                (Call::Madvise { advice: REMOVE, .. }, _) if is_done => 5,
                (Call::Madvise { advice: REMOVE, .. }, CallResult::Error(Errno::EACCES)) => 6,
                (Call::Msync { .. }, _) if is_done => 7,
                (Call::File(_) | Call::Msync { .. }, CallResult::Error(_)) => 8,
                _ => continue,
            };
            counts[kind] += 1;
        }
    }
    println!("{counts:?}");
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}

#[test]
fn sequences_of_processes_fork_where_the_file_is_mapped() {
    let setting = Setting::default();
    let mut forks = 0;
    for seed in 0..200 {
        let steps = file_process_sequence(seed, LONGEST, &setting);
        for outcome in ModelProcesses::new(setting.clone()).run(&steps) {
            let maps =
                outcome.states.iter().any(|(_, state)| state.map.iter().any(|line| line.object.is_some()));
            forks += usize::from(maps && outcome.result == StepResult::Forked(Ok(())));
        }
    }
    assert!(forks > 100, "{forks}");
}

/// What the model says to `steps` of Linux and of the library; they say the same.
fn told(steps: &[ProcessStep]) -> [Vec<StepOutcome>; 2] {
    let of_linux = oracle().map_or_else(Setting::default, |linux| linux.setting().clone());
    let of_linux = ModelProcesses::new(of_linux).run(steps);
    if let Some(mut linux) = oracle() {
        assert_eq!(ProcessSystem::run(&mut linux, steps), of_linux, "Linux says the left");
    }
    let setting = library_setting(false);
    let mut library = Library::<X86_64>::new(setting.clone(), Path::Speculative).expect("a machine");
    let of_library = ModelProcesses::new(setting).run(steps);
    assert_eq!(ProcessSystem::run(&mut library, steps), of_library, "the library says the left");
    [of_linux, of_library]
}

/// Linux makes a mapping ready for copies before it looks for the page: the child's has an identity that came
/// by a fork, and what was split does not join again.
#[test]
fn a_store_beyond_the_end_to_private_memory_counts_as_a_first_copy_in_linux() {
    let call = |process, call| ProcessStep::Call { process, call };
    let (addr, flags) = (page(0), MapFlags::PRIVATE | MapFlags::FIXED);
    let lines = |first, touch| {
        let map = call(0, Call::map_file(addr, 4 * PAGE, RW, flags, first));
        let protect = |process, prot| call(process, Call::Mprotect { addr: addr + PAGE, len: PAGE, prot });
        let fork = |process, child| ProcessStep::Fork { process, child };
        told(&[map, call(0, touch), fork(0, 1), protect(1, R), fork(1, 2), protect(2, RW)]).map(|said| {
            let last = said.last().expect("there are steps");
            last.states.iter().find(|(process, _)| *process == 2).expect("it lives").1.map.len()
        })
    };
    let (load, store) = (Call::Read { addr }, Call::Write { addr, value: 1 });
    assert_eq!((lines(FILE_PAGES, load), lines(FILE_PAGES, store)), ([1, 1], [3, 1]));
    assert_eq!((lines(0, load), lines(0, store)), ([1, 1], [3, 3]));
}
