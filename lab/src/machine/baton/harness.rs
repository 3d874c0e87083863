//! What the conformance suite needs of the seeded machine.

use super::scheduler::Scheduler;
use crate::machine::soft::{Flavour, SoftMachine, refuse, run_with_helper};
use interleaf::machine::Format;
use interleaf::machine::conformance::Harness;
use interleaf::units::VirtAddr;

/// Runs the programs on the schedule of this thread's scenario. The machine's CPUs are
/// [`Baton`](super::Baton)s, or made of them.
#[derive(Clone, Copy, Debug)]
pub struct Seeded;

impl<C: Flavour, F: Format> Harness<SoftMachine<C, F>> for Seeded {
    fn run(&self, machine: &SoftMachine<C, F>, programs: &[&(dyn Fn() + Sync)]) {
        let scheduler = Scheduler::of_this_thread().expect("a scenario");
        scheduler.run(
            machine.bus(),
            programs.iter().map(|&program| Box::new(program) as Box<dyn FnOnce()>).collect(),
        );
    }

    fn run_with_helper(&self, machine: &SoftMachine<C, F>, program: &(dyn Fn() + Sync)) {
        run_with_helper(self, machine, machine, program);
    }

    fn gives_frames_up(&self) -> bool {
        true
    }

    fn load(&self, machine: &SoftMachine<C, F>, at: VirtAddr) -> Option<u64> {
        machine.read_u64(at, &refuse).ok()
    }

    fn patience(&self) -> u64 {
        10_000
    }

    fn rounds(&self) -> u32 {
        20
    }
}
