//! A large range cleared in parts on the seeded machine, beside every call that could meet it: whatever the
//! seed, no CPU reaches a frame that was freed, and what is left adds up.
//!
//! ```text
//!   cpu 0   munmap or MADV_DONTNEED of five tables ─── one flush
//!   cpu 1      sweeps parts for it, and frees
//!   cpu 2   stores, forks, changes rights, drops or unmaps in the same range; every access checks its frame
//! ```

use interleaf::machine::Cpu as _;
use interleaf::space::{AddressSpace, Layout, MapRequest, Path, Place, Sharing, Vm, VmOptions};
use interleaf::table::format::X86_64;
use interleaf::table::walk;
use interleaf::units::{CpuId, Level, VirtAddr, Vpn};
use interleaf::work::{PollLimit, WorkerPool};
use interleaf_check::calls::{Call, CallResult, PAGE, Prot, advice};
use interleaf_check::drive::Driver;
use interleaf_check::recount::QuiescentSystem;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering::*};

type Seeded = SoftMachine<Baton, X86_64>;
type Space<'v> = AddressSpace<'v, Seeded>;

const TABLE: u64 = 512 * PAGE;
const BASE: u64 = 1 << 40;
const TABLES: u64 = 5;
/// What the calls are about; one page behind it keeps the last table.
const LEN: u64 = TABLES * TABLE;

/// Pages that are written before: some of each table, in several parts of it.
fn touched() -> impl Iterator<Item = u64> {
    (0..TABLES)
        .flat_map(|table| [0, 1, 40, 511].map(|page| BASE + table * TABLE + page * PAGE))
        .chain([BASE + LEN])
}

/// What CPU 2 does.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Stores,
    Fork,
    Protect,
    DontNeed,
    Unmap,
}

/// Whether the frames are those of one entry each.
#[derive(Clone, Copy, Debug)]
enum Memory {
    Exclusive,
    Shared,
}

fn has_entry(space: &Space<'_>, addr: u64) -> bool {
    let reading = space.vm().read();
    let found = walk(space.inspect().page_table(), Vpn(addr / PAGE), Level::Pte, &reading);
    !matches!(found.entry(), interleaf::machine::Entry::Absent)
}

/// The call of CPU 0 against each of CPU 2, with memory of both kinds.
fn against_all(call: Call, seeds: std::ops::Range<u64>) {
    for beside in [Beside::Stores, Beside::Fork, Beside::Protect, Beside::DontNeed, Beside::Unmap] {
        for memory in [Memory::Exclusive, Memory::Shared] {
            let scenario = move |schedule: &Schedule| play(schedule, call, beside, memory);
            let options = Options { limit_steps: 2_000_000, ..Options::default() };
            explore(seeds.clone(), options, scenario)
                .unwrap_or_else(|report| panic!("{call:?} beside {beside:?}, {memory:?}: {report}"));
        }
    }
}

fn play(schedule: &Schedule, call: Call, beside: Beside, memory: Memory) {
    let machine = Seeded::new(&MachineConfig::small(3, 600)).expect("a machine");
    let entered = machine.enter(CpuId(0));
    let mut boot = boot_map(&machine).claim(&machine).expect("nobody else has it");
    let workers = WorkerPool::spawn(&machine, &mut boot.early_allocator()).expect("memory for a pool");
    workers.set_poll_limit(PollLimit(2));
    let options = VmOptions { workers: Some(&workers), ..VmOptions::default() };
    let vm = Vm::start(boot, options).expect("memory");
    let in_use = || vm.memory().check().expect("frames add up").allocated;
    vm.trim();
    let before = in_use();
    let new = || {
        Space::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative)
            .expect("memory for a space")
    };
    let space = ManuallyDrop::new(new());
    let sharing = match memory {
        Memory::Exclusive => Sharing::Private,
        Memory::Shared => Sharing::Shared,
    };
    let place = Place::Fixed(VirtAddr(BASE));
    space.map(&MapRequest { place, sharing, ..MapRequest::anonymous(LEN + PAGE) }).expect("it is free");
    drop(entered);
    let space: &Space<'_> = &space;
    let driver = || Driver { machine: &machine, space };
    let done = &AtomicBool::new(false);
    let caller: Program<'_> = Box::new(|| {
        while !workers.has_helper_racy(CpuId(1)) {
            Baton::relax();
        }
        let running = space.activate(None);
        touched().for_each(|addr| drop(driver().call(&Call::Write { addr, value: 1 })));
        done.store(true, Relaxed);
        let answer = driver().call(&call);
        // A hole that another call has made is an error of MADV_DONTNEED, which drops the rest all the same.
        assert!(answer == CallResult::Value(0) || !matches!(call, Call::Munmap { .. }), "{answer:?}");
        drop(running);
        workers.dismiss(CpuId(1));
    });
    let helper: Program<'_> = Box::new(|| machine.help());
    let other: Program<'_> = Box::new(|| {
        while !done.load(Relaxed) {
            Baton::relax();
        }
        let running = space.activate(None);
        do_beside(&driver(), beside);
        drop(running);
    });
    schedule.run(&machine, vec![caller, helper, other]);
    let entered = machine.enter(CpuId(0));
    let spaces = [space];
    QuiescentSystem { machine: &machine, vm: &vm, spaces: &spaces, path: Path::Speculative }.must_hold();
    if matches!(call, Call::Munmap { .. }) {
        assert!(
            touched().filter(|&addr| addr < BASE + LEN).all(|addr| !has_entry(space, addr)),
            "entries are left"
        );
    }
    assert!(has_entry(space, BASE + LEN), "the page behind the range went");
    drop(entered);
    for cpu in [1, 2, 0] {
        let _entered = machine.enter(CpuId(cpu));
        vm.trim();
    }
    let _entered = machine.enter(CpuId(0));
    space.unmap(VirtAddr(BASE), LEN + PAGE).expect("all of it may go");
    vm.trim();
    // The root and the node are there still, and go with the machine.
    assert_eq!(in_use(), before + 2, "frames handed out before and after");
}

fn do_beside(driver: &Driver<'_, '_, Baton, X86_64>, beside: Beside) {
    let inner = BASE + TABLE;
    let store = |addr| drop(driver.call(&Call::Write { addr, value: 2 }));
    let stores = || touched().step_by(3).for_each(store);
    match beside {
        Beside::Stores => stores(),
        Beside::Fork => {
            let child = driver.space.fork().expect("there is memory");
            stores();
            drop(child);
        }
        Beside::Protect => {
            let protect = |prot| drop(driver.call(&Call::Mprotect { addr: inner, len: 2 * TABLE, prot }));
            protect(Prot::READ);
            store(inner);
            protect(Prot::READ | Prot::WRITE);
            stores();
        }
        Beside::DontNeed => {
            stores();
            drop(driver.call(&Call::Madvise { addr: inner, len: 3 * TABLE, advice: advice::DONTNEED }));
            stores();
        }
        Beside::Unmap => {
            drop(driver.call(&Call::Munmap { addr: inner, len: 3 * TABLE }));
            stores();
        }
    }
}

#[test]
fn munmap_in_parts_against_every_call_that_could_meet_it() {
    against_all(Call::Munmap { addr: BASE, len: LEN }, 0..60);
}

#[test]
fn madv_dontneed_in_parts_against_every_call_that_could_meet_it() {
    against_all(Call::Madvise { addr: BASE, len: LEN, advice: advice::DONTNEED }, 0..60);
}
