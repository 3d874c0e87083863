//! Memory that waits on a CPU that has nothing to do: an idle CPU keeps no garbage, nor one that goes
//! offline.

use super::world::{fail, map, page, store, with_space};
use crate::arch::spaces::{self, SpaceHandle};
use crate::arch::{Core, MACHINE, percpu, thread};
use crate::memory;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::units::PAGE_SIZE;
use interleaf_kernel::core::options::Options;

/// Pages that each CPU maps, touches and unmaps: fewer than make it poll for its own sake.
const CYCLES: u32 = 20;
/// Nanoseconds until the garbage must be gone.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Every CPU makes garbage, and has nothing to do then but to idle, while one thread looks what is left.
pub fn is_left_by_idle_cpus(options: &Options<'_>) -> bool {
    with_space(options, |space| {
        let (made, passed) = (AtomicU64::new(0), AtomicBool::new(false));
        let make = || {
            spaces::in_space(space, || (0..CYCLES).for_each(|_| cycle(space)));
            made.fetch_max(memory::vm().garbage(), SeqCst);
        };
        let programs: [&(dyn Fn() + Sync); percpu::MAX_CPUS] = [&make; percpu::MAX_CPUS];
        thread::run_all(&programs[..MACHINE.nr_cpus() as usize], true);
        thread::run_all(&[&|| passed.store(goes_away(), SeqCst)], true);
        crate::println!("idle CPUs leave their garbage: {} objects, then none", made.load(SeqCst));
        passed.load(SeqCst) && (made.load(SeqCst) > 0 || fail(format_args!("there was no garbage")))
    })
}

/// The last CPU makes garbage, says that it goes offline, and calls nothing any more: the others free it.
pub fn is_left_by_an_offline_cpu(options: &Options<'_>) -> bool {
    let nr = MACHINE.nr_cpus() as usize;
    if nr < 2 {
        return true;
    }
    with_space(options, |space| {
        let (step, passed) = (AtomicU32::new(0), AtomicBool::new(false));
        let go_offline = || {
            spaces::in_space(space, || (0..CYCLES).for_each(|_| cycle(space)));
            memory::vm().offline();
            step.store(1, SeqCst);
            // A kernel thread: no tick calls the library here.
            while step.load(SeqCst) < 2 {
                Core::relax();
            }
        };
        let stay = || {
            while step.load(SeqCst) < 1 {
                Core::relax();
            }
            passed.store(goes_away(), SeqCst);
            step.store(2, SeqCst);
        };
        let mut programs: [&(dyn Fn() + Sync); percpu::MAX_CPUS] = [&|| (); percpu::MAX_CPUS];
        (programs[0], programs[nr - 1]) = (&stay, &go_offline);
        thread::run_all(&programs[..nr], true);
        passed.load(SeqCst)
    })
}

/// Whether the garbage goes away: this CPU calls what it would call if it were idle; the others do.
fn goes_away() -> bool {
    let (vm, until) = (memory::vm(), Core::now_ns() + PATIENCE_NS);
    while vm.garbage() > 0 && Core::now_ns() < until {
        vm.idle(0);
        Core::relax();
    }
    let left = vm.garbage_stats();
    left.objects == 0 || fail(format_args!("an idle CPU keeps garbage: {left:?}"))
}

fn cycle(space: &SpaceHandle) {
    let base = map(space, 1);
    store(page(base, 0), 1).expect("it is mapped, and there is memory");
    space.unmap(base, PAGE_SIZE as u64).expect("it is mapped");
}
