//! CPUs that keep the root of a space while they idle or run a kernel thread: interrupted once, then they
//! have left.

use super::world::{fail, map, page, store, with_space};
use crate::arch::spaces::{self, SpaceHandle};
use crate::arch::thread;
use crate::arch::{Core, MACHINE, percpu};
use crate::memory;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::tlb::ShootdownStats;
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf_kernel::core::options::Options;

/// Pages that are mapped, touched and unmapped.
const CYCLES: u32 = 5000;

/// What the CPUs do that keep the space.
#[derive(Clone, Copy, Debug)]
enum Keepers {
    Idle,
    RunKernelThreads,
}

/// One thread's cycles, after all CPUs have run the space and kept its root.
pub fn interrupted_once(options: &Options<'_>) -> bool {
    with_space(options, |space| {
        [Keepers::Idle, Keepers::RunKernelThreads].iter().all(|&keepers| cycles_beside(space, keepers))
    })
}

fn cycles_beside(space: &SpaceHandle, keepers: Keepers) -> bool {
    let others = u64::from(MACHINE.nr_cpus()) - 1;
    let (base, ready) = (map(space, others + 1), AtomicU32::new(0));
    let over = AtomicBool::new(false);
    let keep = || {
        spaces::in_space(space, || touch(page(base, Core::id().0.into())));
        ready.fetch_add(1, SeqCst);
        while matches!(keepers, Keepers::RunKernelThreads) && !over.load(SeqCst) {
            Core::relax();
        }
    };
    let counted = AtomicBool::new(false);
    let main = || {
        while u64::from(ready.load(SeqCst)) < others {
            Core::yield_now();
        }
        let began = memory::vm().shootdown_stats();
        spaces::in_space(space, || (0..CYCLES).for_each(|_| cycle(space)));
        let found = memory::vm().shootdown_stats();
        counted.store(is_right(keepers, &found.since(&began), others), SeqCst);
        over.store(true, SeqCst);
    };
    let mut programs: [&(dyn Fn() + Sync); percpu::MAX_CPUS] = [&keep; percpu::MAX_CPUS];
    programs[0] = &main;
    thread::run_all(&programs[..MACHINE.nr_cpus() as usize], true);
    counted.load(SeqCst)
}

/// One interrupt for each CPU that kept the space, and each made one leave.
fn is_right(keepers: Keepers, during: &ShootdownStats, others: u64) -> bool {
    let (sent, left) = (during.sent, during.lazy_left);
    crate::println!("{others} CPUs keep a space ({keepers:?}): {CYCLES} cycles, {sent} interrupts");
    sent == others && left == others || fail(format_args!("CPUs that do not run a space: {during:?}"))
}

fn cycle(space: &SpaceHandle) {
    let page = map(space, 1);
    touch(page);
    space.unmap(page, PAGE_SIZE as u64).expect("it is mapped");
}

fn touch(at: VirtAddr) {
    store(at, 1).expect("it is mapped, and there is memory");
}
