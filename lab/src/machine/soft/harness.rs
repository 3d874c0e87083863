//! What the conformance suite needs of a machine of host threads.

use super::{Flavour, Signal, SoftMachine};
use interleaf::machine::conformance::Harness;
use interleaf::machine::{Format, Machine};
use interleaf::units::{Access, CpuId, VirtAddr};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// Runs each program on a host thread that has entered its CPU.
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

    fn run_with_helper(&self, machine: &SoftMachine<C, F>, program: &(dyn Fn() + Sync)) {
        run_with_helper(self, machine, machine, program);
    }

    fn gives_frames_up(&self) -> bool {
        true
    }

    /// The host may have many other things to do.
    fn patience_ns(&self) -> u64 {
        20_000_000_000
    }

    fn load(&self, machine: &SoftMachine<C, F>, at: VirtAddr) -> Option<u64> {
        machine.read_u64(at, &refuse).ok()
    }
}

/// Runs `program` on CPU 0 while CPU 1, where there is one, does what a helper of `soft` does.
pub(crate) fn run_with_helper<C: Flavour, F: Format, M: Machine<Cpu = C>>(
    harness: &impl Harness<M>,
    machine: &M,
    soft: &SoftMachine<C, F>,
    program: &(dyn Fn() + Sync),
) {
    let over = AtomicBool::new(false);
    let first = || {
        program();
        over.store(true, SeqCst);
    };
    let helper = || {
        while !over.load(SeqCst) {
            soft.help();
            C::relax();
        }
    };
    let programs: [&(dyn Fn() + Sync); 2] = [&first, &helper];
    harness.run(machine, &programs[..machine.nr_cpus().min(2) as usize]);
}

/// Has every fault end in a signal.
///
/// # Errors
/// Always.
pub fn refuse(_: VirtAddr, _: Access) -> Result<(), Signal> {
    Err(Signal::Segv)
}
