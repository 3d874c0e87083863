//! Memory that waits on a CPU that does nothing: a caller that lacks memory gets it.

use super::world::{PAGE, boot_map, space_of, store};
use crate::frame::{AllocRequest, Priority};
use crate::machine::testing::TestMachine;
use crate::space::{AddressSpace, Error, Fault, FaultError, MapRequest, Path, Place, Vm};
use crate::units::{Access, VirtAddr};
use crate::vma::VmaFlags;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::thread;
use std::vec::Vec;

const FRAMES: u64 = 2000;
/// Bytes that one table of leaves covers.
const TABLE: u64 = 512 * PAGE;
const FAR: VirtAddr = VirtAddr(1 << 40);

/// CPU 1 touches a page of each of so many tables, which garbage then is, and does nothing any more.
fn make_garbage(machine: &TestMachine, space: &AddressSpace<'_, TestMachine>, tables: u64) {
    machine.run_as(1);
    for nth in 0..tables {
        let at = VirtAddr(FAR.0 + nth * 2 * TABLE);
        space.map(&MapRequest { place: Place::Fixed(at), ..MapRequest::anonymous(PAGE) }).unwrap();
        store(space, at);
        space.unmap(at, PAGE).unwrap();
    }
    machine.run_as(0);
}

/// Number of pages that CPU 0 can touch.
fn pages_to_be_had(space: &AddressSpace<'_, TestMachine>) -> u64 {
    let base = space.map(&MapRequest::anonymous(2 * FRAMES * PAGE)).unwrap();
    let fault = |nth| Fault { addr: VirtAddr(base.0 + nth * PAGE), access: Access::Write };
    let mut refused = (0..).map(|nth| (nth, space.fault(fault(nth)))).find(|(_, result)| result.is_err());
    let (nth, result) = refused.take().unwrap();
    assert_eq!(result, Err(FaultError::NoMemory));
    space.unmap(base, 2 * FRAMES * PAGE).unwrap();
    nth
}

fn with_vm<R>(f: impl FnOnce(&TestMachine, &Vm<'_, TestMachine>) -> R) -> R {
    let machine = TestMachine::with_cpus(FRAMES, 2);
    machine.run_as(0);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    f(&machine, &vm)
}

#[test]
fn all_memory_is_had_though_garbage_of_a_quiet_cpu_held_it() {
    let had = |tables| {
        with_vm(|machine, vm| {
            let space = space_of(vm);
            make_garbage(machine, &space, tables);
            let waiting = vm.garbage_stats();
            assert!(waiting.objects >= tables.min(16) && waiting.bytes >= tables.min(16) * PAGE);
            pages_to_be_had(&space)
        })
    };
    assert_eq!(had(100), had(0));
}

#[test]
fn a_mapping_and_a_space_are_had_from_garbage_of_a_quiet_cpu() {
    with_vm(|machine, vm| {
        let space = space_of(vm);
        let make_lack = || {
            make_garbage(machine, &space, 100);
            let request = AllocRequest::DIRTY.with_priority(Priority::Normal);
            let taken: Vec<_> = core::iter::from_fn(|| vm.memory().alloc_frame(request)).collect();
            assert!(vm.garbage_stats().objects >= 16 && taken.len() > 1000);
            taken
        };
        let taken = make_lack();
        let other = space_of(vm);
        drop((taken, other));
        let taken = make_lack();
        // Mappings that cannot be merged take records and nodes, more than two slabs have.
        for nth in 0..200 {
            let place = Place::Fixed(VirtAddr(FAR.0 + nth * PAGE));
            let flags = if nth % 2 == 0 { VmaFlags::READ } else { VmaFlags::READ | VmaFlags::WRITE };
            space.map(&MapRequest { place, flags, ..MapRequest::anonymous(PAGE) }).unwrap();
        }
        drop(taken);
    });
}

#[test]
fn a_cpu_that_goes_idle_or_offline_leaves_no_garbage() {
    with_vm(|machine, vm| {
        let space = space_of(vm);
        make_garbage(machine, &space, 100);
        let waiting = vm.garbage_stats().objects;
        machine.run_as(1);
        assert!(vm.idle(u64::MAX), "nothing is advanced for garbage that is not old");
        assert!(vm.garbage_stats().objects <= waiting);
        machine.run_as(0);
        // One call finds what the last one advanced for.
        let calls = (1..10).find(|_| !vm.idle(0)).unwrap();
        assert!(calls <= 4, "{calls} calls");
        assert_eq!(vm.garbage_stats().objects, 0);
        assert!(!vm.idle(0), "nothing to do");
    });
}

#[test]
fn a_cpu_that_ticks_keeps_no_garbage_of_that_age() {
    with_vm(|machine, vm| {
        let space = space_of(vm);
        make_garbage(machine, &space, 20);
        let waiting = vm.garbage();
        assert!(waiting > 0);
        machine.run_as(1);
        (0..10).for_each(|_| vm.tick(u64::MAX));
        assert_eq!(vm.garbage(), waiting, "it is not old");
        machine.run_as(0);
        (0..10).for_each(|_| vm.tick(0));
        assert_eq!(vm.garbage(), waiting, "another CPU's");
        machine.run_as(1);
        (0..4).for_each(|_| vm.tick(0));
        assert_eq!(vm.garbage(), 0);
        vm.tick(0);
    });
}

#[test]
fn a_cpu_that_goes_offline_leaves_its_garbage_to_those_that_tick() {
    with_vm(|machine, vm| {
        let space = space_of(vm);
        make_garbage(machine, &space, 20);
        machine.run_as(1);
        vm.offline();
        assert!(vm.garbage() > 0, "nothing is waited for");
        machine.run_as(0);
        (0..4).for_each(|_| vm.tick(0));
        assert_eq!(vm.garbage(), 0);
        machine.run_as(1);
        vm.offline();
    });
}

#[test]
fn ticks_do_not_wait_for_a_reader() {
    with_vm(|machine, vm| {
        let space = space_of(vm);
        make_garbage(machine, &space, 20);
        let section = vm.read();
        machine.run_as(1);
        (0..10).for_each(|_| vm.tick(0));
        assert!(vm.garbage() > 0, "a reader may hold it");
        machine.run_as(0);
        drop(section);
        machine.run_as(1);
        (0..4).for_each(|_| vm.tick(0));
        assert_eq!(vm.garbage(), 0);
    });
}

#[test]
fn nothing_is_waited_for_in_a_read_section() {
    with_vm(|machine, vm| {
        let space = space_of(vm);
        make_garbage(machine, &space, 20);
        let section = vm.read();
        assert!(!vm.try_trim());
        assert!(vm.garbage_stats().objects > 0);
        drop(section);
        assert!(vm.try_trim());
        assert_eq!(vm.garbage_stats().objects, 0);
    });
}

/// A reader that never leaves: the caller that lacks memory is told so.
#[test]
fn a_reader_that_stays_makes_nobody_wait_for_ever() {
    with_vm(|machine, vm| {
        let (space, entered, done) = (space_of(vm), AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                machine.run_as(1);
                let _section = vm.read();
                entered.store(true, Relaxed);
                while !done.load(Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
            while !entered.load(Relaxed) {
                thread::yield_now();
            }
            assert!(!vm.try_trim());
            let request = AllocRequest::DIRTY.with_priority(Priority::Normal);
            let _taken: Vec<_> = core::iter::from_fn(|| vm.memory().alloc_frame(request)).collect();
            let refused = AddressSpace::new(vm, *space.layout(), Path::Speculative).map(drop);
            assert_eq!(refused, Err(Error::NoMemory));
            done.store(true, Relaxed);
        });
    });
}
