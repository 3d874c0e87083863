//! The library's conformance suite, on this machine.

use crate::arch::{MACHINE, Metal, suite, thread, user};
use crate::memory;
use interleaf::machine::Machine;
use interleaf::machine::conformance::{Harness, Rule, Verdict};
use interleaf::units::{CpuId, VirtAddr};
use interleaf_kernel::core::options::Options;

/// Threads that stay on their CPUs.
struct Threads;

impl Harness<Metal> for Threads {
    fn run(&self, _: &Metal, programs: &[&(dyn Fn() + Sync)]) {
        thread::run_all(programs, true);
    }

    /// The helpers always exist, and run where no other thread is ready.
    fn run_beside_helpers(&self, _: &Metal, programs: &[(CpuId, &(dyn Fn() + Sync))]) -> bool {
        let mut alone: [&(dyn Fn() + Sync); thread::MAX_PARTS] = [&|| (); thread::MAX_PARTS];
        alone.iter_mut().zip(programs).for_each(|(alone, &(_, program))| *alone = program);
        thread::run_on(&alone[..programs.len()], |n| 1 << programs[n].0.0);
        true
    }

    /// Seconds under an emulator, where each poll yields to the other CPUs.
    fn patience(&self) -> u64 {
        2_000_000
    }

    fn patience_ns(&self) -> u64 {
        20_000_000_000
    }

    fn load(&self, _: &Metal, at: VirtAddr) -> Option<u64> {
        user::try_load(at)
    }
}

/// Runs the suite; every rule that this machine's CPUs let it test must hold.
pub fn run(_: &Options<'_>) -> bool {
    // The helpers leave the worker pool's handler, which the suite's takes the place of.
    let dismiss = || (0..MACHINE.nr_cpus()).for_each(|cpu| memory::workers().dismiss(CpuId(cpu)));
    let Some(report) = suite::run(memory::vm().memory(), &Threads, dismiss) else { return false };
    crate::println!("{report}");
    report.iter().all(|(rule, verdict)| match verdict {
        Verdict::Holds => true,
        // An emulator may run one CPU after the other.
        Verdict::NeverOverlapped => rule == Rule::BarrierOrders,
        Verdict::Untested => may_miss(rule),
        Verdict::Broken => false,
    })
}

/// Whether a rule may go untested here: what needs two CPUs on a machine with one, and record windows, which
/// this machine, of one node, has none of.
fn may_miss(rule: Rule) -> bool {
    MACHINE.nr_cpus() == 1 || rule == Rule::RecordWindow
}
