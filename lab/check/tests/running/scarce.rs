//! Memory that just suffices: no allocation fails because other CPUs hold free frames, or are moving some.

use interleaf::frame::{AllocRequest, Priority};
use interleaf::machine::Machine as _;
use interleaf::space::{AddressSpace, Fault, FaultError, Layout, MapRequest, Path, Sharing, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, VirtAddr};
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::cell::Cell;

type Machine = SoftMachine<Baton, X86_64>;

const CPUS: u32 = 3;
const FRAMES: u64 = 128;
const ASK: AllocRequest = AllocRequest::DIRTY.with_priority(Priority::Normal);

/// Each CPU takes its share of all memory, frame by frame, and gives it back; together they
/// never hold more than there is.
fn everybody_takes_a_share(schedule: &Schedule) {
    let machine = Machine::new(&MachineConfig::small(CPUS, FRAMES)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let all: Vec<_> = std::iter::from_fn(|| vm.memory().alloc_frame(ASK)).collect();
    let share = all.len() / CPUS as usize;
    assert!(share > 10, "{share} frames for each CPU");
    drop(all);
    drop(cpu);
    let program = |cpu: u32| -> Program<'_> {
        let memory = vm.memory();
        Box::new(move || {
            for round in 0..2 {
                let share = share - (cpu as usize + round) % 2;
                let take =
                    |n| memory.alloc_frame(ASK).unwrap_or_else(|| panic!("frame {n} of {share} is refused"));
                drop((0..share).map(take).collect::<Vec<_>>());
            }
        })
    };
    schedule.run(&machine, (0..machine.nr_cpus()).map(program).collect());
    let _cpu = machine.enter(CpuId(0));
    vm.memory().check().expect("frames add up");
}

/// A fault on shared memory, with `seed` frames left: it ends, whatever is lacking, the index of the memory's
/// pages not least.
fn shared_fault_with_little_memory(schedule: &Schedule) {
    let machine = Machine::new(&MachineConfig::small(1, FRAMES)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let space =
        AddressSpace::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).expect("memory");
    let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(4096 << 20) };
    let start = space.map(&request).expect("room");
    let mut held: Vec<_> = std::iter::from_fn(|| vm.memory().alloc_frame(ASK)).collect();
    held.truncate(held.len().saturating_sub(schedule.seed() as usize));
    drop(cpu);
    let done = Cell::new(None);
    let program: Program<'_> = Box::new(|| {
        let addr = VirtAddr(start.0 + (4096 << 19));
        done.set(Some(space.fault(Fault { addr, access: Access::Write })));
    });
    schedule.run(&machine, vec![program]);
    let _cpu = machine.enter(CpuId(0));
    let done = done.get().expect("the fault has ended");
    assert!(matches!(done, Ok(_) | Err(FaultError::NoMemory)), "{done:?}");
    // Three tables and the page, three tables of the index, and a cache's fill of them.
    assert!(done.is_ok() || schedule.seed() < 40, "{done:?} with {} frames", schedule.seed());
    drop(held);
    assert!(space.fault(Fault { addr: VirtAddr(start.0), access: Access::Write }).is_ok());
    drop(space);
    vm.memory().check().expect("frames add up");
}

#[test]
fn a_fault_on_shared_memory_ends_however_little_memory_there_is() {
    let options = Options { limit_steps: 200_000, ..Options::default() };
    explore(0..60, options, shared_fault_with_little_memory).unwrap_or_else(|report| panic!("{report}"));
}

#[test]
fn who_asks_for_no_more_than_there_is_gets_it_whatever_other_cpus_hold() {
    let summary = explore(0..400, Options::default(), everybody_takes_a_share);
    let summary = summary.unwrap_or_else(|report| panic!("{report}"));
    println!("{summary:?}");
}
