//! What the conformance suite needs of the machine of virtual time.

use super::cpu::Sim;
use super::machine::MemoryPlan;
use super::simulation::Simulation;
use crate::machine::fibers::Program;
use crate::machine::soft::{SoftMachine, refuse, run_with_helper};
use interleaf::machine::Format;
use interleaf::machine::conformance::Harness;
use interleaf::units::VirtAddr;

/// Runs the programs in the simulation of this thread's scenario.
#[derive(Clone, Copy, Debug)]
pub struct Simulated;

impl<F: Format> Harness<SoftMachine<Sim, F>> for Simulated {
    fn run(&self, machine: &SoftMachine<Sim, F>, programs: &[&(dyn Fn() + Sync)]) {
        let simulation = Simulation::of_this_thread().expect("a scenario");
        let programs = programs.iter().map(|&program| Box::new(program) as Program<'_>).collect();
        simulation.run(machine.bus(), MemoryPlan::default(), programs);
    }

    fn run_with_helper(&self, machine: &SoftMachine<Sim, F>, program: &(dyn Fn() + Sync)) {
        run_with_helper(self, machine, machine, program);
    }

    fn gives_frames_up(&self) -> bool {
        true
    }

    fn load(&self, machine: &SoftMachine<Sim, F>, at: VirtAddr) -> Option<u64> {
        machine.read_u64(at, &refuse).ok()
    }

    fn patience(&self) -> u64 {
        10_000
    }

    fn rounds(&self) -> u32 {
        20
    }
}
