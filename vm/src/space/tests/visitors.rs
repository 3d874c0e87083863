//! Visitors that call back: nothing is held while they are called.

use super::world::{PAGE, boot_map, space_of};
use crate::machine::testing::TestMachine;
use crate::space::{AddressSpace, Advice, Fault, MapRequest, Place, RmapFound, Vm};
use crate::units::{Access, VirtAddr, Vpn, VpnRange};
use crate::vma::VmaFlags;
use core::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

type TestSpace<'v> = AddressSpace<'v, TestMachine>;
type TestVm<'m> = Vm<'m, TestMachine>;

const BASE: u64 = 1 << 20;
/// More than are looked at under one lock, or in one section.
const PAGES: u64 = 1200;

fn page(nr: u64) -> VirtAddr {
    Vpn(BASE + nr).addr()
}

fn all() -> VpnRange {
    VpnRange::new(Vpn(BASE), Vpn(BASE + PAGES))
}

/// Runs the test with a space of some mappings, whose pages are touched, and a child.
fn with_space(test: impl FnOnce(&TestVm<'_>, &TestSpace<'_>, &TestSpace<'_>)) {
    let machine = TestMachine::new(4 * PAGES);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let place = Place::Fixed(page(0));
    space.map(&MapRequest { place, ..MapRequest::anonymous(PAGES * PAGE) }).unwrap();
    for nr in 0..4 {
        space.protect(page(100 * nr), 50 * PAGE, VmaFlags::READ).unwrap();
    }
    for nr in (0..PAGES).filter(|nr| nr % 100 >= 50 || *nr >= 400) {
        space.fault(Fault { addr: page(nr), access: Access::Write }).unwrap();
    }
    let child = space.fork().unwrap();
    test(&vm, &space, &child);
    vm.memory().check().unwrap();
    drop((space, child));
    vm.trim();
    vm.memory().check().unwrap();
}

/// Everything that sleeps, locks the space to write, or waits for readers, on the page and beside it.
fn call_all(space: &TestSpace<'_>, nr: u64) {
    let base = space.map(&MapRequest::anonymous(3 * PAGE)).unwrap();
    space.fault(Fault { addr: base, access: Access::Write }).unwrap();
    space.protect(base, PAGE, VmaFlags::READ).unwrap();
    space.unmap(base, 3 * PAGE).unwrap();
    space.advise(page(nr), PAGE, Advice::DontNeed).unwrap();
    let _ = space.fault(Fault { addr: page(nr), access: Access::Read });
    space.inspect().each_vma(|_| ());
    space.mincore(page(nr), PAGE, |_, _| ()).unwrap();
    space.walker().scan_accessed_and_flush(all(), |_, _| ());
    space.vm().synchronize();
}

#[test]
fn a_visitor_of_mappings_may_change_them() {
    with_space(|vm, space, _| {
        let (mut seen, mut calls) = (Vec::new(), 0);
        space.inspect().each_vma(|vma| {
            seen.push(vma.range);
            calls += 1;
            call_all(space, calls);
        });
        assert!(seen.is_sorted_by(|one, next| one.end <= next.start), "{seen:?}");
        assert_eq!(seen.iter().map(|range| range.len()).sum::<u64>(), PAGES);
        assert_eq!((space.inspect().nr_mappings(), seen.len()), (8, 8));
        // All go with the first.
        let mut left = 0;
        space.inspect().each_vma(|_| {
            left += 1;
            space.unmap(page(0), PAGES * PAGE).unwrap();
        });
        assert!(left <= 2 && space.inspect().nr_mappings() == 0, "{left}");
        vm.trim();
    });
}

#[test]
fn a_visitor_of_residency_may_change_the_space() {
    with_space(|_, space, child| {
        let mut seen = Vec::new();
        let looked = space.mincore(page(0), PAGES * PAGE, |at, is_resident| {
            if seen.len() % 300 == 299 {
                call_all(space, 0);
                drop(space.fork().unwrap());
            }
            seen.push((at.0 - BASE, is_resident));
        });
        assert_eq!((looked, seen.len() as u64), (Ok(()), PAGES));
        let expected = |nr: u64| nr % 100 >= 50 || nr >= 400;
        assert!((0..PAGES).zip(&seen).all(|(nr, at)| *at == (nr, nr > 0 && expected(nr))), "{seen:?}");
        // A hole that comes behind the part that was looked at.
        let mut visited = 0;
        let looked = child.mincore(page(0), PAGES * PAGE, |at, _| {
            visited += 1;
            if at.0 == BASE {
                child.unmap(page(700), PAGE).unwrap();
            }
        });
        assert_eq!((looked, visited), (Err(crate::space::Error::NoMemory), 700));
    });
}

#[test]
fn a_visitor_of_accessed_pages_may_change_the_space() {
    with_space(|vm, space, _| {
        let running = space.activate(None);
        let mut seen = Vec::new();
        let scan = space.walker().scan_accessed_and_flush(all(), |pages, leaf| {
            assert!(leaf.accessed);
            if seen.len() % 300 == 0 {
                space.unmap(pages.start.addr(), PAGE).unwrap();
                call_all(space, 1000);
                vm.trim();
            }
            seen.push(pages.start);
        });
        assert!(seen.is_sorted() && scan.accessed >= seen.len() as u64 - 4, "{scan:?}");
        drop(running);
    });
}

#[test]
fn a_visitor_of_a_frames_entries_may_change_them() {
    with_space(|vm, space, child| {
        let frame =
            |nr| vm.memory().try_get(space.inspect().resident_frame(page(nr).vpn()).unwrap().0).unwrap();
        let known = |id| [space, child].into_iter().find(|space| space.id() == id);
        let reference = frame(600);
        let mut visited = Vec::new();
        let found = vm.rmap_walk(&reference, known, |entry| {
            call_all(entry.space(), 601);
            visited.push((entry.walk(), entry.space().id(), entry.page()));
            // The other space's entry goes, if it was not visited yet.
            if entry.walk() == 0 {
                child.unmap(page(600), PAGE).unwrap();
                vm.synchronize();
            }
            ControlFlow::Continue(())
        });
        assert_eq!(found, Ok(RmapFound::All(1)));
        assert!(visited.iter().all(|(_, id, at)| *id == space.id() && *at == page(600).vpn()));
        drop(reference);
    });
}

/// `scan_accessed` calls its visitor in the section of its caller, where nothing waits for readers.
#[test]
fn a_visitor_in_its_callers_section_is_refused_to_wait_for_readers() {
    with_space(|vm, space, _| {
        let waits = || catch_unwind(AssertUnwindSafe(|| vm.synchronize())).is_err();
        let (mut calls, reading) = (0, vm.read());
        space.walker().scan_accessed(all(), &reading, |_, _| {
            assert!(waits(), "a wait for itself");
            calls += 1;
        });
        drop(reading);
        assert!(calls > 0 && !waits());
    });
}
