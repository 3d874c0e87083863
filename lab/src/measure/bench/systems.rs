//! Do two CPUs map and unmap twice as much as one where they share nothing of the library?
//!
//! Each CPU has a complete system of its own: a machine of one CPU with its memory, an RCU, pools, a space.
//! What keeps the two from doing twice one CPU's work is what the host's CPUs share, caches and memory; what
//! `spaces.map_unmap` loses beyond it is the library's. So it stands beside that figure, and has no bar.

use super::spaces::{FRAMES, PAIRS, Space, map_unmap, repeat, scaling_of_compute, scaling_on};
use super::{Benchmark, Figure, Options, paired, pinned_threads};
use crate::error::Failure;
use crate::machine::host::{TaskSpace, with_switch_notifier};
use crate::measure::timed_machine;
use interleaf::space::{Layout, Path};
use interleaf::table::format::X86_64;
use interleaf::units::CpuId;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "spaces.systems",
    question: "Do two CPUs map and unmap twice as much as one, in two systems that share nothing?",
    figures: &["spaces.apart"],
    run,
};

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let cpus = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    let of_one = |cpu: &usize| Options { cpus: vec![*cpu], ..options.clone() };
    let machine = |cpu| timed_machine::machine(&of_one(cpu), FRAMES);
    let machines: Vec<_> = cpus.iter().map(machine).collect::<Result<_, _>>()?;
    let vm = |machine| {
        let _entered = timed_machine::TimedMachine::enter(machine, CpuId(0));
        timed_machine::vm(machine)
    };
    let vms: Vec<_> = machines.iter().map(vm).collect::<Result<_, _>>()?;
    let mut spaces = Vec::new();
    for vm in &vms {
        let _entered = vm.machine().enter(CpuId(0));
        let space = Space::new(vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative);
        spaces.push(space.map_err(Failure::of)?);
    }
    let times = options.size(PAIRS, 20);
    let rate = |cpus: &[usize]| {
        let took = pinned_threads::together(cpus, |index| {
            let space = &spaces[index];
            let _entered = space.vm().machine().enter(CpuId(0));
            let running = TaskSpace::new(space);
            with_switch_notifier(&running, || repeat(times, || map_unmap(space)));
        });
        cpus.len() as f64 * times as f64 / took.as_secs_f64()
    };
    let ours = || scaling_on(cpus, rate);
    let theirs = || scaling_of_compute(options, cpus);
    let figure = paired(options, "spaces.apart", "times", ours, "computation", theirs);
    for space in spaces {
        let _entered = space.vm().machine().enter(CpuId(0));
        drop(space);
    }
    Ok(vec![figure])
}
