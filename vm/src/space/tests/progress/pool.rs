//! Calls of the pool that depend on another party, which does not go on: each ends, with an error.

use crate::frame::HugetlbCounts;
use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::tests::world::pool::{
    BYTES, HUGE, TAKEN, TestSpace, TestVm, at, entry, fault, leaf, map, peek, store, take_back, try_map,
};
use crate::space::tests::world::{boot_map, ends_in, leak, space_of};
use crate::space::{Advice, Error, FaultError, Vm};
use crate::table::SlotMarker;
use crate::units::{Access, PageSize};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;

fn wait_for(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::yield_now();
    }
}

/// Calls `while_kept` while another thread has a reference by number to the only page of the pool, which it
/// has taken between the change of the entry by MADV_DONTNEED and the flush; then the reference is put.
fn beside_a_reference_to_what_is_restored(
    while_kept: impl FnOnce(&'static TestMachine, &'static TestSpace<'static>),
) -> &'static TestSpace<'static> {
    let machine = TestMachine::leaked(8 * HUGE, 3);
    machine.run_as(0);
    let vm: &'static TestVm<'static> = leak(Vm::new(machine, boot_map(machine)).unwrap());
    vm.resize_hugetlb(PageSize::Huge, 1);
    let space: &'static TestSpace<'static> = leak(space_of(vm));
    map(space, 0, 1);
    store(space, 0, 1);
    let pfn = leaf(space, 0).unwrap().pfn;
    let [loaded, release] = [(); 2].map(|()| -> &'static AtomicBool { leak(AtomicBool::new(false)) });
    let holder = thread::spawn(move || {
        machine.run_as(1);
        let _active = space.activate(None);
        loaded.store(true, SeqCst);
        while entry(space, 0) != SlotMarker::HugetlbReserved.entry() {
            thread::yield_now();
        }
        let frame = vm.memory().try_get(pfn).expect("user memory still");
        // Flushes wait for this CPU.
        while !release.load(SeqCst) {
            TestCpu::relax();
        }
        drop(frame);
    });
    wait_for(loaded);
    space.advise(at(0), BYTES, Advice::DontNeed).unwrap();
    vm.memory().check().unwrap();
    while_kept(machine, space);
    release.store(true, SeqCst);
    holder.join().unwrap();
    vm.memory().check().unwrap();
    space
}

#[test]
fn a_fault_ends_beside_a_reference_to_the_page_that_was_to_come_back() {
    let space = beside_a_reference_to_what_is_restored(|machine, space| {
        let faulted = ends_in(120, move || {
            machine.run_as(2);
            (fault(space, 0, Access::Write), space.unmap_hugetlb_sharers(at(0), |_| Some(space)))
        });
        assert_eq!(faulted, Some((Err(FaultError::HugetlbEmpty), Ok(false))));
        // Nothing more can be set aside, and what is set aside stays so.
        assert_eq!(try_map(space, 1, 1), Err(Error::NoMemory));
        assert_eq!(space.vm().memory().hugetlb().counts(PageSize::Huge).reserved, 1);
    });
    // It is back.
    assert_eq!(space.unmap_hugetlb_sharers(at(0), |_| Some(space)), Ok(true));
    store(space, 0, 2);
    space.unmap(at(0), BYTES).unwrap();
    let free = HugetlbCounts { total: 1, free: 1, reserved: 0, surplus: 0 };
    assert_eq!(space.vm().memory().hugetlb().counts(PageSize::Huge), free);
}

#[test]
fn what_comes_back_late_is_no_reserve_of_an_entry_that_is_gone() {
    let space = beside_a_reference_to_what_is_restored(|_, space| {
        space.unmap(at(0), BYTES).unwrap();
        assert_eq!(try_map(space, 0, 1), Err(Error::NoMemory));
        space.vm().memory().check().unwrap();
    });
    map(space, 0, 1);
    store(space, 0, 3);
    assert_eq!(peek(space, 0), Some(3));
}

#[test]
fn a_page_is_not_taken_back_beside_a_reference_which_no_child_can_put() {
    let machine = TestMachine::with_cpus(8 * HUGE, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    vm.resize_hugetlb(PageSize::Huge, 1);
    let space = space_of(&vm);
    map(&space, 0, 1);
    store(&space, 0, 1);
    let child = space.fork().unwrap();
    let reference = vm.memory().try_get(leaf(&space, 0).unwrap().pfn).unwrap();
    let spaces = [&space, &child];
    for _ in 0..3 {
        assert_eq!(fault(&space, 0, Access::Write), Err(FaultError::HugetlbEmpty));
        assert_eq!(take_back(&space, 0, &spaces), Ok(false));
    }
    assert_eq!(peek(&child, 0), Some(1), "a child has lost its page, for nothing");
    drop(reference);
    assert_eq!(take_back(&space, 0, &spaces), Ok(true));
    store(&space, 0, 2);
    assert_eq!(entry(&child, 0), TAKEN);
}

/// The reference comes after the child has lost its page.
#[test]
fn taking_back_ends_where_the_page_is_the_callers_alone_and_referenced() {
    let machine = TestMachine::with_cpus(8 * HUGE, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    vm.resize_hugetlb(PageSize::Huge, 1);
    let space = space_of(&vm);
    map(&space, 0, 1);
    store(&space, 0, 1);
    let child = space.fork().unwrap();
    assert_eq!(take_back(&space, 0, &[&space, &child]), Ok(true));
    let reference = vm.memory().try_get(leaf(&space, 0).unwrap().pfn).unwrap();
    assert_eq!(fault(&space, 0, Access::Write), Err(FaultError::HugetlbEmpty));
    assert_eq!(take_back(&space, 0, &[&space, &child]), Ok(false));
    drop(reference);
    store(&space, 0, 2);
}

/// Another thread of this CPU unmaps the page wherever the call may be preempted.
#[test]
fn a_page_that_comes_back_while_the_pool_shrinks_leaves_it() {
    let machine = TestMachine::leaked(8 * HUGE, 2);
    machine.run_as(0);
    let vm: &'static TestVm<'static> = leak(Vm::new(machine, boot_map(machine)).unwrap());
    for at_call in 0..40 {
        vm.resize_hugetlb(PageSize::Huge, 1);
        let space: &'static TestSpace<'static> = leak(space_of(vm));
        map(space, 0, 1);
        store(space, 0, 1);
        let calls: &'static AtomicU32 = leak(AtomicU32::new(0));
        TestCpu::when_preemptible(move || {
            if calls.fetch_add(1, SeqCst) == at_call {
                space.unmap(at(0), BYTES).unwrap();
            }
        });
        let counts = vm.resize_hugetlb(PageSize::Huge, 0);
        TestCpu::when_preemptible(|| ());
        let has_ended = calls.load(SeqCst) <= at_call;
        if has_ended {
            space.unmap(at(0), BYTES).unwrap();
        }
        let after = vm.memory().hugetlb().counts(PageSize::Huge);
        assert_eq!(after, HugetlbCounts::default(), "unmapped at {at_call}; was {counts:?}");
        if has_ended {
            return;
        }
    }
    panic!("the call has more places than were tried");
}
