//! A space on one CPU of the seeded machine, and helpers on two others.

use interleaf::machine::Machine as _;
use interleaf::space::{AddressSpace, Layout, Path, Vm, VmOptions};
use interleaf::table::format::X86_64;
use interleaf::units::CpuId;
use interleaf::vma::HugePolicy;
use interleaf::work::{PollLimit, WorkerPool};
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::ops::Range;

pub type Seeded = SoftMachine<Baton, X86_64>;
pub type Space<'v> = AddressSpace<'v, Seeded>;

/// Plays `play` with a space and the seed, on a machine of so many frames; afterwards as many frames are
/// handed out as before.
pub fn with_helpers(frames: u64, huge: HugePolicy, seeds: Range<u64>, play: fn(Space<'_>, u64)) {
    let scenario = move |schedule: &Schedule| {
        let machine = Seeded::new(&MachineConfig::small(3, frames)).expect("a machine");
        let entered = machine.enter(CpuId(0));
        let mut memory = boot_map(&machine).claim(&machine).expect("nobody else has it");
        let workers = WorkerPool::spawn(&machine, &mut memory.early_allocator()).expect("memory");
        workers.set_poll_limit(PollLimit(2));
        drop(entered);
        let (machine, seed) = (&machine, schedule.seed());
        let first: Program<'_> = Box::new(move || {
            let options = VmOptions { workers: Some(&workers), huge_pages: huge, ..VmOptions::default() };
            let vm = Vm::start(memory, options).expect("memory");
            let in_use = || {
                vm.trim();
                vm.memory().check().expect("frames add up").allocated
            };
            let before = in_use();
            play(
                Space::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).expect("memory"),
                seed,
            );
            vm.synchronize();
            assert_eq!(in_use(), before, "frames leaked");
            drop(vm);
            drop(workers);
        });
        let helpers = (1..machine.nr_cpus()).map(|_| Box::new(|| machine.help()) as Program<'_>);
        schedule.run(machine, std::iter::once(first).chain(helpers).collect());
    };
    let options = Options { limit_steps: 20_000_000, ..Options::default() };
    explore(seeds, options, scenario).unwrap_or_else(|report| panic!("{report}"));
}
