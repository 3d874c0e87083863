//! Memory that just suffices: no allocation fails because other CPUs hold free frames, or are moving some.

use interleaf::frame::{AllocRequest, Priority};
use interleaf::machine::Machine as _;
use interleaf::space::Vm;
use interleaf::table::format::X86_64;
use interleaf::units::CpuId;
use interleaf_lab::check::library::boot_map;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};

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

#[test]
fn who_asks_for_no_more_than_there_is_gets_it_whatever_other_cpus_hold() {
    let summary = explore(0..400, Options::default(), everybody_takes_a_share);
    let summary = summary.unwrap_or_else(|report| panic!("{report}"));
    println!("{summary:?}");
}
