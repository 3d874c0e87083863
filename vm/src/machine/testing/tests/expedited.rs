//! The suite's rule of expedited helpers: kept where they get their CPU, broken where they never do, and
//! untested without threads beside them.

use super::{TestCpu, TestMachine};
use crate::machine::Cpu;
use crate::machine::conformance::{self, FRAMES, Harness, Rule, Verdict};
use crate::units::{CpuId, PfnRange, VirtAddr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::vec::Vec;

/// What becomes of a helper on whose CPU other threads are always ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Helper {
    /// It runs while it is expedited, and until it has ended.
    Expedited,
    /// It never runs.
    Starves,
    /// The harness has no such threads.
    Alone,
}

struct Threads(Helper);

type Program<'a> = (CpuId, &'a (dyn Fn() + Sync));

/// Runs each program on a thread that is one of the CPU's, and a helper of CPU 1 where `may_begin` says so.
fn run_all(machine: &TestMachine, programs: &[Program<'_>], may_begin: impl Fn() -> bool + Sync) {
    let left = AtomicUsize::new(programs.len());
    let helper = || {
        machine.run_as(1);
        while left.load(SeqCst) > 0 {
            if may_begin() {
                machine.run_helper();
            }
            TestCpu::relax();
        }
    };
    thread::scope(|scope| {
        scope.spawn(helper);
        for &(cpu, program) in programs {
            let left = &left;
            scope.spawn(move || {
                machine.run_as(cpu.0);
                program();
                left.fetch_sub(1, SeqCst);
            });
        }
    });
}

impl Harness<TestMachine> for Threads {
    fn run(&self, machine: &TestMachine, programs: &[&(dyn Fn() + Sync)]) {
        let programs: Vec<_> = (0..).map(CpuId).zip(programs.iter().copied()).collect();
        run_all(machine, &programs, || false);
    }
    fn run_with_helper(&self, machine: &TestMachine, program: &(dyn Fn() + Sync)) {
        run_all(machine, &[(CpuId(0), program)], || true);
    }
    fn run_beside_helpers(&self, machine: &TestMachine, programs: &[Program<'_>]) -> bool {
        let is_expedited = || self.0 == Helper::Expedited && TestCpu::nr_expedited() > 0;
        if self.0 != Helper::Alone {
            run_all(machine, programs, is_expedited);
        }
        self.0 != Helper::Alone
    }
    fn has_mmu(&self) -> bool {
        false
    }
    fn load(&self, _: &TestMachine, _: VirtAddr) -> Option<u64> {
        None
    }
    fn patience(&self) -> u64 {
        if self.0 == Helper::Starves { 5_000 } else { 1_000_000 }
    }
    fn rounds(&self) -> u32 {
        1
    }
}

#[test]
fn a_helper_that_is_expedited_gets_its_cpu_or_the_suite_says_that_it_does_not() {
    let cases = [
        (Helper::Expedited, Verdict::Holds),
        (Helper::Starves, Verdict::Broken),
        (Helper::Alone, Verdict::Untested),
    ];
    for (helper, verdict) in cases {
        let machine = TestMachine::with_cpus(FRAMES, 2);
        let frames = PfnRange::new(machine.frames().start, machine.frames().start.add(FRAMES));
        // SAFETY: nothing else uses the machine.
        let report = unsafe { conformance::run(&machine, &Threads(helper), frames) };
        assert_eq!(report.verdict(Rule::HelperExpedited), verdict, "{report}");
        assert_eq!(report.verdict(Rule::HelperRuns), Verdict::Holds, "{report}");
    }
}
