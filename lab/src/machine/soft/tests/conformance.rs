//! Every flavour keeps the rules, and a machine that breaks one is caught.

use super::Tiny;
use super::broken::{BREAKS, Bad, NONE, ON_ONE_HOST_CPU, ONE, PATIENCE, RAN_NS, WAITED_NS, run_broken};
use crate::machine::baton::{self, Baton, Options, Seeded, Verdict as Run};
use crate::machine::host::Host;
use crate::machine::sim::{self, Profile, Setting, Sim, Simulated};
use crate::machine::soft::*;
use crate::machine::watch::Watch;
use interleaf::machine::conformance::{self, FRAMES, Harness, Rule, Verdict};
use interleaf::units::*;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::*;

pub(super) fn config() -> MachineConfig {
    MachineConfig::small(2, FRAMES)
}

pub(super) fn frames() -> PfnRange {
    config().regions[0]
}

fn passes<C: Flavour>() {
    let machine = SoftMachine::<C, Tiny>::new(&config()).unwrap();
    // SAFETY: nothing else uses the machine.
    let report = unsafe { conformance::run(&machine, &Threads, frames()) };
    let bad: Vec<_> = report.iter().filter(|&told| !holds_here(told)).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

/// Whether a machine of threads passes with this verdict: the host may be too busy to run two CPUs at once,
/// and the harness has no ordinary threads beside a helper.
fn holds_here((rule, verdict): (Rule, Verdict)) -> bool {
    let expected = match rule {
        Rule::HelperExpedited => Verdict::Untested,
        Rule::BarrierOrders if verdict == Verdict::NeverOverlapped => verdict,
        _ => Verdict::Holds,
    };
    verdict == expected
}

#[test]
fn the_timed_machine_keeps_the_rules() {
    passes::<Host>();
}

#[test]
fn the_recording_machine_keeps_the_rules() {
    passes::<Watch>();
}

#[test]
fn the_seeded_machine_keeps_the_rules_whatever_the_seed() {
    let scenario = |_: &baton::Schedule| {
        let machine = SoftMachine::<Baton, Tiny>::new(&config()).unwrap();
        // SAFETY: nothing else uses the machine.
        let report = unsafe { conformance::run(&machine, &Seeded, frames()) };
        assert!(report.iter().all(holds_here), "{report}");
    };
    baton::explore(0..10, Options::default(), scenario).unwrap_or_else(|report| panic!("{report}"));
}

#[test]
fn the_machine_of_virtual_time_keeps_the_rules() {
    let scenario = |_: &sim::Stage| {
        let machine = SoftMachine::<Sim, Tiny>::new(&config()).unwrap();
        // SAFETY: nothing else uses the machine.
        let report = unsafe { conformance::run(&machine, &Simulated, frames()) };
        assert!(report.iter().all(holds_here), "{report}");
    };
    let costs = Profile::built_in("cascade-lake").unwrap().costs;
    sim::run(Setting::new(costs), scenario).unwrap_or_else(|verdict| panic!("{verdict}"));
}

/// As [`Threads`], with the suite's own patience: on one CPU no helper ever comes.
struct Hurried;

impl Harness<SoftMachine<Host, Tiny>> for Hurried {
    fn run(&self, machine: &SoftMachine<Host, Tiny>, programs: &[&(dyn Fn() + Sync)]) {
        Threads.run(machine, programs);
    }

    fn run_with_helper(&self, machine: &SoftMachine<Host, Tiny>, program: &(dyn Fn() + Sync)) {
        Threads.run_with_helper(machine, program);
    }

    fn gives_frames_up(&self) -> bool {
        true
    }

    fn load(&self, machine: &SoftMachine<Host, Tiny>, at: VirtAddr) -> Option<u64> {
        Threads.load(machine, at)
    }
}

#[test]
fn a_machine_with_one_cpu_is_tested_as_far_as_that_goes() {
    let machine = SoftMachine::<Host, Tiny>::new(&MachineConfig { nr_cpus: 1, ..config() }).unwrap();
    // SAFETY: nothing else uses the machine.
    let report = unsafe { conformance::run(&machine, &Hurried, frames()) };
    assert!(report.holds(), "{report}");
    assert_eq!(report.verdict(Rule::WakeReaches), Verdict::Untested);
    assert_eq!(report.verdict(Rule::FlushUpper), Verdict::Holds);
}

#[test]
fn a_machine_that_breaks_a_rule_is_caught() {
    // A CPU that sleeps where it should not never comes back, and a missing barrier shows by chance: see the
    // next tests. That of expedited helpers is not tested here.
    let elsewhere = [Rule::SleepLooks, Rule::WakeReaches, Rule::BarrierOrders, Rule::HelperExpedited];
    for &rule in Rule::ALL.iter().filter(|rule| !elsewhere.contains(rule)) {
        // Where the host is busy a test may not reach its end, and proves nothing about the rule: then it
        // runs again with more polls.
        let noticed = [20_000, 100_000, 500_000].into_iter().any(|patience| {
            PATIENCE.store(patience, Relaxed);
            run_broken(Some(rule)).verdict(rule) == Verdict::Broken
        });
        assert!(noticed, "{rule:?} was broken and the suite did not notice");
    }
    PATIENCE.store(20_000, Relaxed);
    assert!(run_broken(None).holds());
}

/// Two CPUs that truly run at once show it sooner or later, within a second where the host has nothing else
/// to do. Where it has, it may never run both at once: then the test gives up after a few tries.
#[test]
fn a_missing_barrier_is_caught_in_the_end() {
    const TRIES: u32 = 60;
    const FEW: u32 = 8;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let is_busy = || WAITED_NS.load(Relaxed) > RAN_NS.load(Relaxed) / 4;
    for tried in 1..=TRIES {
        let report = run_broken(Some(Rule::BarrierOrders));
        if report.verdict(Rule::BarrierOrders) == Verdict::Broken || cpus < 2 {
            return;
        }
        if tried >= FEW && is_busy() {
            println!("not shown: the host has other things to do than to run two CPUs at once");
            return;
        }
    }
    panic!("the barrier was missing and the suite did not notice");
}

/// It cannot be seen where both CPUs share one of the host's, and the suite says so.
#[test]
fn a_missing_barrier_is_not_taken_for_one_where_the_cpus_never_ran_at_once() {
    ON_ONE_HOST_CPU.store(true, Relaxed);
    let report = run_broken(Some(Rule::BarrierOrders));
    ON_ONE_HOST_CPU.store(false, Relaxed);
    assert_eq!(report.verdict(Rule::BarrierOrders), Verdict::NeverOverlapped, "{report}");
}

#[test]
fn lost_wake_ups_are_deadlocks_of_the_seeded_machine() {
    for rule in [Rule::SleepLooks, Rule::WakeReaches] {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        BREAKS.store(rule as u64, Relaxed);
        let scenario = |_: &baton::Schedule| {
            let machine = SoftMachine::<Bad<Baton>, Tiny>::new(&config()).unwrap();
            // SAFETY: nothing else uses the machine.
            unsafe { conformance::run(&machine, &Seeded, frames()) };
        };
        let report = baton::run_seed(1, Options::default(), scenario);
        assert!(matches!(report.verdict, Run::Deadlock(_)), "{report}");
        BREAKS.store(NONE, Relaxed);
    }
}
