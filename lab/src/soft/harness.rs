//! What the conformance suite needs of a machine of host threads.

use super::{Flavour, Signal, SoftMachine};
use interleaf::machine::Format;
use interleaf::machine::conformance::Harness;
use interleaf::units::{Access, CpuId, VirtAddr};
use std::thread;

/// Runs each program on a host thread that sits on its CPU.
#[derive(Clone, Copy, Debug)]
pub struct Threads;

impl<C: Flavour, F: Format> Harness<SoftMachine<C, F>> for Threads {
    fn run(&self, machine: &SoftMachine<C, F>, programs: &[&(dyn Fn() + Sync)]) {
        thread::scope(|s| {
            for (cpu, program) in (0..).zip(programs) {
                s.spawn(move || {
                    let _here = machine.enter(CpuId(cpu));
                    program();
                });
            }
        });
    }

    fn load(&self, machine: &SoftMachine<C, F>, at: VirtAddr) -> Option<u64> {
        machine.read_u64(at, &refuse).ok()
    }
}

/// Has every fault end in a signal.
///
/// # Errors
/// Always.
pub fn refuse(_: VirtAddr, _: Access) -> Result<(), Signal> {
    Err(Signal::Segv)
}
