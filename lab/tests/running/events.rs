//! A machine that listens hears why each fault gave up speculating, with the address that faulted.

use interleaf::space::{AddressSpace, Counter, Fallback, Fault, Layout, MapRequest, Path, Place, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{Access, CpuId, PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_lab::check::library::boot_map;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

type TestMachine = SoftMachine<Baton, X86_64>;
type Heard = Arc<Mutex<Vec<(&'static str, u64)>>>;

const PAGE: u64 = PAGE_SIZE as u64;
const BASE: VirtAddr = VirtAddr(0x7000_0000_0000);

fn page(number: u64) -> VirtAddr {
    VirtAddr(BASE.0 + number * PAGE)
}

/// Runs `f` with a machine of `frames` frames and three CPUs, the system on it and a space.
fn with_space(
    frames: u64,
    f: impl FnOnce(&TestMachine, &Vm<'_, TestMachine>, &AddressSpace<'_, TestMachine>),
) -> Vec<(&'static str, u64)> {
    let machine = TestMachine::new(&MachineConfig::small(3, frames)).unwrap();
    let (heard, by_machine) = (Heard::default(), Heard::default());
    let told = by_machine.clone();
    machine.listen(move |name, value| told.lock().unwrap().push((name, value)));
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = AddressSpace::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).unwrap();
    drop(cpu);
    f(&machine, &vm, &space);
    let fell_back: u64 = Fallback::ALL.iter().map(|reason| vm.totals().get(reason.counter())).sum();
    heard.lock().unwrap().extend(by_machine.lock().unwrap().iter());
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard.len() as u64, fell_back, "an event for each fault that gave up: {heard:?}");
    let _cpu = machine.enter(CpuId(0));
    drop(space);
    heard
}

fn map(space: &AddressSpace<'_, TestMachine>, flags: VmaFlags, pages: u64) {
    let place = Place::Fixed(BASE);
    space.map(&MapRequest { place, flags, ..MapRequest::anonymous(pages * PAGE) }).unwrap();
}

#[test]
fn a_fault_where_nothing_is_mapped_or_allowed_is_heard() {
    let heard = with_space(256, |machine, _, space| {
        let _cpu = machine.enter(CpuId(0));
        let _running = space.activate(None);
        map(space, VmaFlags::READ, 1);
        let _ = space.fault(Fault { addr: VirtAddr(page(3).0 + 5), access: Access::Read });
        let _ = space.fault(Fault { addr: VirtAddr(page(0).0 + 7), access: Access::Write });
    });
    assert_eq!(heard, [("spf_vma_missing", page(3).0 + 5), ("spf_vma_access", page(0).0 + 7)]);
}

#[test]
fn a_fault_that_lacks_memory_is_heard() {
    let heard = with_space(256, |machine, _, space| {
        let _cpu = machine.enter(CpuId(0));
        let _running = space.activate(None);
        map(space, VmaFlags::READ | VmaFlags::WRITE | VmaFlags::NORESERVE, 512);
        let access = Access::Write;
        let lacking = (0..512).find(|&n| space.fault(Fault { addr: page(n), access }).is_err());
        assert!(lacking.is_some());
    });
    assert!(heard.iter().all(|&(name, value)| name == "spf_no_memory" && value >= BASE.0), "{heard:?}");
    assert!(!heard.is_empty());
}

#[test]
fn an_entry_of_a_kind_that_faults_do_not_know_is_heard() {
    let heard = with_space(256, |machine, _, space| {
        let _cpu = machine.enter(CpuId(0));
        let _running = space.activate(None);
        map(space, VmaFlags::READ | VmaFlags::WRITE, 2);
        let fault = |number| space.fault(Fault { addr: page(number), access: Access::Write });
        fault(1).unwrap();
        assert!(machine.toggle_unknown(page(0).vpn()));
        assert!(fault(0).is_err());
        assert!(machine.toggle_unknown(page(0).vpn()));
    });
    assert_eq!(heard, [("spf_vma_notsup", page(0).0)]);
}

/// Two CPUs fault on the same pages while the third changes the mappings and takes the pages away.
fn race(schedule: &Schedule, all: &Heard) {
    let heard = with_space(512, |machine, _, space| {
        let running: Vec<_> = (0..3)
            .map(|cpu| {
                let _cpu = machine.enter(CpuId(cpu));
                space.activate(None)
            })
            .collect();
        {
            let _cpu = machine.enter(CpuId(0));
            map(space, VmaFlags::READ | VmaFlags::WRITE, 4);
        }
        let faults = || -> Program<'_> {
            Box::new(|| {
                for round in 0..16 {
                    // Read, then written: the zero page is replaced, and the entry busy until a flush.
                    let access = if round % 2 == 0 { Access::Read } else { Access::Write };
                    let _ = space.fault(Fault { addr: page(round / 2 % 4), access });
                }
            })
        };
        let edits: Program<'_> = Box::new(|| {
            for round in 0..4 {
                let flags = if round % 2 == 0 { VmaFlags::READ } else { VmaFlags::READ | VmaFlags::WRITE };
                let _ = space.protect(page(1), 2 * PAGE, flags);
                let _ = space.unmap(BASE, 4 * PAGE);
                map(space, VmaFlags::READ | VmaFlags::WRITE, 4);
                let _ = space.fault(Fault { addr: page(round), access: Access::Write });
            }
        });
        schedule.run(machine, vec![faults(), faults(), edits]);
        for (cpu, running) in (0..).zip(running) {
            let _cpu = machine.enter(CpuId(cpu));
            drop(running);
        }
    });
    assert!(heard.iter().all(|&(_, value)| (0..4).any(|n| page(n).0 == value)), "{heard:?}");
    all.lock().unwrap().extend(heard);
}

#[test]
fn what_other_cpus_change_under_a_fault_is_heard() {
    let all = Heard::default();
    let told = all.clone();
    explore(0..400, Options::default(), move |schedule| race(schedule, &told)).unwrap();
    let names: BTreeSet<_> = all.lock().unwrap().iter().map(|&(name, _)| name).collect();
    for name in ["spf_vma_changed", "spf_pmd_changed", "spf_entry_busy", "spf_vma_missing", "spf_vma_access"]
    {
        assert!(names.contains(name), "{name} was not heard: {names:?}");
    }
    let known: BTreeSet<_> = Fallback::ALL.iter().map(|reason| Counter::name(reason.counter())).collect();
    assert!(names.is_subset(&known));
}
