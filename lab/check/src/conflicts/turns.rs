//! Two CPUs that work in turns, while what each of them touches is counted.

use super::Fights;
use interleaf::machine::Cpu;
use interleaf::space::AddressSpace;
use interleaf::table::format::X86_64;
use interleaf::units::CpuId;
use interleaf_lab::machine::soft::SoftMachine;
use interleaf_lab::machine::watch::{Conflict, Footprint, Names, Watch, conflicts, footprint};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::thread;

/// The machine whose shared accesses are recorded.
pub(super) type Machine = SoftMachine<Watch, X86_64>;
/// A space on it.
pub(super) type Space<'v> = AddressSpace<'v, Machine>;

/// Operations of a CPU between two turns: more pages than a cache of frames holds, so that every turn refills
/// it.
const TURN: u64 = 100;

/// Where the CPUs take turns. The one that waits handles interrupts meanwhile.
struct Turns(AtomicU64);

impl Turns {
    /// Waits until both CPUs are here.
    fn meet(&self) {
        let round = self.0.fetch_add(1, AcqRel) / 2;
        while self.0.load(Acquire) / 2 == round {
            Watch::relax();
            thread::yield_now();
        }
    }
}

/// What each CPU touched.
pub(super) struct Recorded<'s, 'v> {
    spaces: [&'s Space<'v>; 2],
    cpus: [Footprint; 2],
}

impl Recorded<'_, '_> {
    /// The lines that one CPU wrote and the other touched.
    pub(super) fn conflicts(&self) -> Vec<Conflict> {
        conflicts(&self.cpus[0], &self.cpus[1])
    }

    /// What lies where, now. The caller runs on no CPU.
    pub(super) fn names(&self) -> Names {
        let vm = self.spaces[0].vm();
        let _cpu = vm.machine().enter(CpuId(0));
        Names::of_now(vm.machine(), vm, &self.spaces)
    }

    /// The lines for which the CPUs contend, by name. The caller runs on no CPU.
    pub(super) fn fights(&self) -> Fights {
        let names = self.names();
        Fights::of(&self.conflicts(), &names, &names.labels())
    }
}

/// Has CPUs 0 and 1 call `operate(cpu, n)` for each `n` below `each`, in turns, each with its space active,
/// and records what they touch. The caller runs on no CPU.
pub(super) fn in_turns<'s, 'v>(
    spaces: [&'s Space<'v>; 2],
    each: u64,
    operate: impl Fn(u32, u64) + Sync,
) -> Recorded<'s, 'v> {
    let (vm, turns) = (spaces[0].vm(), Turns(AtomicU64::new(0)));
    let (machine, operate) = (vm.machine(), &operate);
    let take_turns = |me: u32| {
        for turn in 0..each.div_ceil(TURN) {
            for whose in 0..2 {
                turns.meet();
                if whose == me {
                    (turn * TURN..each.min((turn + 1) * TURN)).for_each(|n| operate(me, n));
                }
            }
        }
        // Both stay until the last flush is answered.
        turns.meet();
    };
    let work = |me: u32| {
        let _cpu = machine.enter(CpuId(me));
        let _running = spaces[me as usize].activate(None);
        footprint(|| take_turns(me)).1
    };
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(|| work(1));
        (work(0), second.join().expect("the second CPU comes to its end"))
    });
    Recorded { spaces, cpus: [first, second] }
}
