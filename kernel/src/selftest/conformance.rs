//! The library's conformance suite, on this machine.

use crate::arch::{MACHINE, Metal, helpers, thread, user};
use crate::memory;
use interleaf::frame::AllocRequest;
use interleaf::machine::conformance::{self, FRAMES, Harness, Rule, Verdict};
use interleaf::machine::{Callback, Machine};
use interleaf::units::{CpuId, Order, PfnRange, VirtAddr};
use interleaf_kernel::core::options::Options;

/// Threads that stay on their CPUs.
struct Threads;

impl Harness<Metal> for Threads {
    fn run(&self, _: &Metal, programs: &[&(dyn Fn() + Sync)]) {
        thread::run_all(programs, true);
    }

    /// Seconds under an emulator, where each poll yields to the other CPUs.
    fn patience(&self) -> u64 {
        2_000_000
    }

    fn load(&self, _: &Metal, at: VirtAddr) -> Option<u64> {
        user::try_load(at)
    }
}

/// A block of at least [`FRAMES`] frames.
const BLOCK: Order = Order(5);

/// Runs the suite; every rule that this machine's CPUs let it test must hold.
pub fn run(_: &Options<'_>) -> bool {
    let memory = memory::vm().memory();
    let Some(block) = memory.alloc(BLOCK, AllocRequest::DIRTY) else { return false };
    // The suite installs handlers of its own; no other code may need the library's handler meanwhile.
    let installed: Option<Callback<Metal>> = MACHINE.interrupt_handler();
    MACHINE.set_interrupt_handler(None);
    let help = take_help();
    let frames = PfnRange::new(block.pfn(), block.pfn().add(FRAMES));
    let report = conformance::run(&MACHINE, &Threads, frames);
    MACHINE.set_interrupt_handler(installed);
    MACHINE.set_helper_handler(help);
    memory.free(block);
    crate::println!("{report}");
    report
        .iter()
        .all(|(rule, verdict)| verdict == Verdict::Holds || (verdict == Verdict::Untested && may_miss(rule)))
}

/// Removes the worker pool's handler from the helpers, which leave it first, to be restored later.
fn take_help() -> Option<Callback<Metal>> {
    let help = helpers::handler();
    (0..MACHINE.nr_cpus()).for_each(|cpu| memory::workers().dismiss(CpuId(cpu)));
    MACHINE.set_helper_handler(None);
    help
}

/// Whether a rule may go untested here: what needs two CPUs on a machine with one.
fn may_miss(_: Rule) -> bool {
    MACHINE.nr_cpus() == 1
}
