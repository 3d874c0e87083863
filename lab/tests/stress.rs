//! Real threads on real cores: two CPUs map, write, protect, drop and unmap in one space, and switch to spaces of their own.

use interleaf::machine::Format;
use interleaf::space::{AddressSpace, Advice, Layout, MapRequest, Path, Vm};
use interleaf::table::format::{Aarch64, X86_64};
use interleaf::units::{CpuId, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_lab::check::drive::Faults;
use interleaf_lab::check::library::boot_map;
use interleaf_lab::check::recount::Scene;
use interleaf_lab::host::{Host, with_switch};
use interleaf_lab::soft::{Plan, SoftMachine};
use std::thread;

const PAGE: u64 = 4096;
const PAGES: u64 = 24;
const ROUNDS: u64 = 300;

type Machine<F> = SoftMachine<Host, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;

/// A pattern that no other thread, round or page has.
fn pattern(cpu: u64, round: u64, page: u64) -> u64 {
    1 + (cpu << 48 | round << 16 | page)
}

/// Each page of the memory holds what `due` says.
fn verify<F: Format>(machine: &Machine<F>, space: &Space<'_, F>, start: VirtAddr, due: impl Fn(u64) -> u64) {
    for page in 0..PAGES {
        let found = machine.read_u64(VirtAddr(start.0 + page * PAGE), &Faults::new(space));
        assert_eq!(found, Ok(due(page)), "page {page}");
    }
}

/// Maps, writes, protects, drops and unmaps once.
fn round<F: Format>(machine: &Machine<F>, space: &Space<'_, F>, cpu: u64, round: u64) {
    let start = space.map(&MapRequest::anonymous(PAGES * PAGE)).expect("room");
    let write = |page: u64, value: u64| {
        machine.write_u64(VirtAddr(start.0 + page * PAGE), value, &Faults::new(space))
    };
    verify(machine, space, start, |_| 0);
    (0..PAGES).for_each(|page| write(page, pattern(cpu, round, page)).expect("it may be written"));
    verify(machine, space, start, |page| pattern(cpu, round, page));
    space.protect(start, PAGES * PAGE, VmaFlags::READ).expect("it is mapped");
    assert!(write(round % PAGES, 0).is_err(), "a store to memory that may only be read");
    verify(machine, space, start, |page| pattern(cpu, round, page));
    space.protect(start, PAGES * PAGE, VmaFlags::READ | VmaFlags::WRITE).expect("it is mapped");
    space.advise(start, PAGES * PAGE / 2, Advice::DontNeed).expect("it is mapped");
    verify(machine, space, start, |page| if page < PAGES / 2 { 0 } else { pattern(cpu, round, page) });
    space.unmap(start, PAGES * PAGE).expect("it is mapped");
}

fn two_cpus_at_once<F: Format>(path: Path) {
    let machine = Machine::<F>::new(&Plan::small(2, 8192)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).expect("memory");
    let before = vm.memory().check().expect("frames add up").handed_out;
    let new = || AddressSpace::new(&vm, Layout::linux::<F>(), path).expect("memory for a space");
    let (shared, own) = (new(), [new(), new()]);
    drop(cpu);
    thread::scope(|scope| {
        for cpu in 0..2 {
            let (machine, vm, shared, own) = (&machine, &vm, &shared, &own[cpu as usize]);
            scope.spawn(move || {
                let _cpu = machine.enter(CpuId(cpu));
                shared.enter_cpu();
                for n in 0..ROUNDS {
                    // A thread that sleeps takes its CPU out of the space first, else nobody would answer for it.
                    with_switch(shared, || round(machine, shared, u64::from(cpu), n));
                    if n % 8 == 0 {
                        own.switch_from(shared);
                        with_switch(own, || round(machine, own, u64::from(cpu), n));
                        shared.switch_from(own);
                    }
                }
                shared.leave_cpu();
                vm.trim();
            });
        }
    });
    let _cpu = machine.enter(CpuId(0));
    let spaces = [&shared, &own[0], &own[1]];
    Scene { machine: &machine, vm: &vm, spaces: &spaces, path }.must_hold();
    drop((shared, own));
    vm.trim();
    assert_eq!(vm.memory().check().expect("frames add up").handed_out, before);
}

#[test]
fn two_cpus_at_once_lose_nothing_where_faults_speculate() {
    two_cpus_at_once::<X86_64>(Path::Speculative);
}

#[test]
fn two_cpus_at_once_lose_nothing_where_faults_take_the_lock() {
    two_cpus_at_once::<X86_64>(Path::Locked);
}

#[test]
fn two_cpus_at_once_lose_nothing_on_aarch64() {
    two_cpus_at_once::<Aarch64>(Path::Speculative);
}
