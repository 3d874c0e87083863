//! The kernel's own tests. Each prints its findings, and whether they are right.
//!
//! | `selftest=` | shows |
//! |---|---|
//! | `conformance` | the library's suite for platforms |
//! | `faults` | the kernel's own faults: resolved, or an error with no lock held |
//! | `events` | a fault that gives up speculating is reported, with its reason and address |
//! | `refused` | an access of ring 3 that is refused counts as one fault |
//! | `idle` | an idle CPU counts as idle only while it waits, whatever ended the wait |
//! | `garbage` | an idle CPU keeps no garbage |
//! | `offline` | nor does one that goes offline |
//! | `ticks` | nor does one that computes in ring 3, for longer than some ticks |
//! | `flushes` | a flush interrupts the CPUs that run the space, each once, and no other |
//! | `lazy` | a CPU that keeps a space without running it is interrupted once, however often it is flushed |
//! | `helpers` | calls on large ranges end though more threads than CPUs spin |
//! | `storm`, `spaces` | more threads than CPUs, in one space and in many, under preemption |
//! | `huge` | a huge page in the CPU's tables: installed by a store, of zeros by a load, cut by calls |
//! | `huge-fork` | a child has what its parent's huge page held |
//! | `huge-race` | all CPUs store to one huge page at once: one installs it, no store is lost |
//! | `huge-storm` | a storm over huge pages, which are recounted |
//! | `all` | these, one after the other |
//! | `panic`, `guard` | a panic, and a full stack: both end the machine with a report |
#![forbid(unsafe_code)]

mod conformance;
mod faults;
mod garbage;
mod helpers;
mod huge;
mod huge_storm;
mod idle;
mod lazy;
mod refused;
mod storm;
mod ticks;
mod world;

use crate::arch::{Core, space};
use interleaf::machine::Cpu;
use interleaf_kernel::core::options::Options;

/// A test: whether it passed.
type Test = fn(&Options<'_>) -> bool;

/// By name, in the order in which `all` runs them.
const TESTS: &[(&str, Test)] = &[
    ("conformance", conformance::run),
    ("faults", faults::of_the_kernel),
    ("events", faults::are_heard),
    ("refused", refused::once_each),
    ("idle", idle::ends_with_the_wait),
    ("garbage", garbage::is_left_by_idle_cpus),
    ("offline", garbage::is_left_by_an_offline_cpu),
    ("ticks", ticks::bound_the_age_of_garbage),
    ("flushes", faults::interrupt_only_who_runs_the_space),
    ("lazy", lazy::interrupted_once),
    ("helpers", helpers::are_not_kept_waiting_for),
    ("storm", storm::in_one_space),
    ("spaces", storm::in_many_spaces),
    ("huge", huge::whole_and_cut),
    ("huge-fork", huge::forked),
    ("huge-race", huge::raced_for),
    ("huge-storm", huge_storm::in_one_space),
];

/// Runs a test by name, or `all`. Returns the exit code: 0 where all passed, 1 where a test failed, 2 for an
/// unknown name.
pub fn run(name: &str, options: &Options<'_>) -> u8 {
    match name {
        "panic" => panic!("as the command line wants"),
        "guard" => space::fill_a_stack(),
        _ => {}
    }
    let wanted = |test: &&(&str, Test)| name == "all" || test.0 == name;
    let (mut ran, mut failed) = (0, 0);
    for (name, test) in TESTS.iter().filter(wanted) {
        ran += 1;
        let began = Core::now_ns();
        let passed = test(options);
        let ms = (Core::now_ns() - began) / 1_000_000;
        failed += u32::from(!passed);
        crate::println!("selftest {name}: {} in {ms} ms", if passed { "passed" } else { "FAILED" });
    }
    if ran == 0 {
        crate::println!("selftest {name}: there is none of that name");
    }
    match (ran, failed) {
        (0, _) => 2,
        (_, 0) => 0,
        _ => 1,
    }
}
