//! Real threads on real cores, with as many tasks as CPUs and with more, where tasks take turns.

use interleaf::machine::Format;
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use interleaf_check::stress::{Done, Length, StressConfig, run};

fn stress<F: Format>(tasks: u32, path: Path) -> Done {
    let config =
        StressConfig { tasks, cpus: 2, length: Length::Rounds(1200 / u64::from(tasks)), seed: 1, path };
    let done = run::<F>(&config).unwrap_or_else(|wrong| panic!("{config:?}: {wrong}"));
    println!("{done:?}");
    assert!(done.faults > 0 && (done.speculated > 0) == (path == Path::Speculative), "{done:?}");
    assert_eq!(done.vma_locked > 0, path == Path::VmaLock, "{done:?}");
    done
}

#[test]
fn two_cpus_at_once_lose_nothing_where_faults_speculate() {
    stress::<X86_64>(2, Path::Speculative);
}

#[test]
fn two_cpus_at_once_lose_nothing_where_faults_take_the_lock() {
    stress::<X86_64>(2, Path::Locked);
}

#[test]
fn two_cpus_at_once_lose_nothing_where_faults_lock_the_mapping() {
    stress::<X86_64>(2, Path::VmaLock);
}

#[test]
fn two_cpus_at_once_lose_nothing_on_aarch64() {
    stress::<Aarch64>(2, Path::Speculative);
}

#[test]
fn tasks_that_take_turns_lose_nothing_where_faults_speculate() {
    let done = stress::<X86_64>(7, Path::Speculative);
    assert!(done.turns > 7, "tasks gave up their CPUs {} times", done.turns);
}

#[test]
fn tasks_that_take_turns_lose_nothing_where_faults_take_the_lock() {
    stress::<X86_64>(7, Path::Locked);
}

#[test]
fn tasks_that_take_turns_lose_nothing_where_faults_lock_the_mapping() {
    stress::<X86_64>(7, Path::VmaLock);
}

#[test]
fn tasks_that_take_turns_lose_nothing_on_aarch64() {
    stress::<Aarch64>(5, Path::Speculative);
}
