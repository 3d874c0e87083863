//! Stores to pages that forks have shared: a copy, in place where no other space has the page, or taken back.

use super::*;
use crate::machine::testing::TestFormat;
use crate::space::tests::world::pins::{Limit, pfns, slots};
use crate::space::{Advice, Layout, Path};

/// Runs the test with a space of each path, which has mapped the first pages.
fn with_paths(pool: u64, pages: u64, test: impl Fn(&TestVm<'_>, TestSpace<'_>)) {
    for path in Path::ALL {
        with_pool(pool, |vm, space| {
            drop(space);
            let space = AddressSpace::new(vm, Layout::linux::<TestFormat>(), path).unwrap();
            map(&space, 0, pages);
            (0..pages).for_each(|page| store(&space, page, page as u8 + 1));
            test(vm, space);
        });
    }
}

fn pfn(space: &TestSpace<'_>, page: u64) -> Pfn {
    leaf(space, page).unwrap().pfn
}

#[test]
fn a_store_copies_and_the_last_owner_writes_in_place() {
    with_paths(4, 2, |vm, space| {
        let child = space.fork().unwrap();
        let shared = pfn(&space, 0);
        let copied = || [Counter::CowCopied, Counter::PgReuse].map(|counter| vm.totals().get(counter));
        store(&child, 0, 50);
        assert_eq!((copied(), counts(vm, &[&space, &child], 2)), ([1, 0], (1, 0)));
        assert_eq!((peek(&space, 0), peek(&child, 0)), (Some(1), Some(50)));
        assert_eq!(record(vm, shared), (1, 1, false));
        assert_eq!(record(vm, pfn(&child, 0)), (1, 1, true));
        store(&space, 0, 60);
        assert_eq!((pfn(&space, 0), copied()), (shared, [1, 1]));
        assert_eq!(record(vm, shared), (1, 1, true));
        // The parent's copy; and the child writes in place once the parent has ended.
        store(&space, 1, 70);
        assert_eq!((peek(&space, 1), peek(&child, 1)), (Some(70), Some(2)));
        drop(space);
        store(&child, 1, 80);
        assert_eq!((copied(), counts(vm, &[&child], 2)), ([2, 2], (2, 0)));
    });
}

#[test]
fn a_store_is_resolved_without_the_spaces_lock() {
    with_pool(3, |_, space| {
        map(&space, 0, 2);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        assert_eq!(fault(&child, 0, Access::Write), Ok(Outcome::Speculated));
        assert_eq!(fault(&space, 0, Access::Write), Ok(Outcome::Speculated));
    });
}

#[test]
fn no_tlb_has_the_old_page_after_a_copy() {
    with_paths(3, 1, |vm, space| {
        let child = space.fork().unwrap();
        let running = space.activate(None);
        let page = at(0).vpn();
        let old = vm.machine().translate(page, Access::Read).unwrap().pfn;
        store(&space, 0, 9);
        assert!(vm.machine().cached(0, page).is_none_or(|leaf| leaf.pfn != old), "a load finds the old page");
        drop(running);
        assert_eq!(peek(&child, 0), Some(1));
    });
}

#[test]
fn a_child_without_a_page_for_its_copy_gets_a_bus_error_and_keeps_what_it_has() {
    with_paths(2, 1, |vm, space| {
        map(&space, 1, 1);
        let child = space.fork().unwrap();
        assert_eq!(counts(vm, &[&space, &child], 2), (1, 1));
        assert_eq!(fault(&child, 0, Access::Write), Err(FaultError::HugetlbEmpty));
        assert_eq!(child.copy_to(at(0), &[1]), Err(Error::Fault));
        // Nothing is set aside for a child: it takes nothing back.
        assert_eq!(take_back(&child, 0, &[&space, &child]), Ok(false));
        fault(&child, 0, Access::Read).unwrap();
        assert_eq!((peek(&child, 0), peek(&space, 0)), (Some(1), Some(1)));
        // A page that is given up is one for the copy.
        space.unmap(at(1), BYTES).unwrap();
        store(&child, 0, 2);
        assert_eq!((peek(&child, 0), peek(&space, 0)), (Some(2), Some(1)));
    });
}

#[test]
fn the_owner_takes_its_page_back_from_all_who_share_it() {
    with_paths(2, 1, |vm, space| {
        map(&space, 1, 1);
        let child = space.fork().unwrap();
        let grandchild = child.fork().unwrap();
        let all = [&space, &child, &grandchild];
        let before = pfn(&space, 0);
        // No TLB of a child has the page afterwards.
        let running = grandchild.activate(None);
        assert!(vm.machine().translate(at(0).vpn(), Access::Read).is_some());
        assert_eq!(fault(&space, 0, Access::Write), Err(FaultError::HugetlbEmpty));
        assert_eq!(take_back(&space, 0, &all), Ok(true));
        assert!(vm.machine().cached(0, at(0).vpn()).is_none(), "a child's TLB has a page that is taken");
        drop(running);
        store(&space, 0, 7);
        assert_eq!((pfn(&space, 0), peek(&space, 0)), (before, Some(7)));
        assert_eq!((record(vm, before), counts(vm, &all, 2)), ((1, 1, true), (1, 1)));
        for one in [&child, &grandchild] {
            assert_eq!(entry(one, 0), TAKEN);
            for access in [Access::Read, Access::Write] {
                assert_eq!(fault(one, 0, access), Err(FaultError::HugetlbEmpty));
            }
        }
        // What is lost stays so, in a child's child too, until it is dropped.
        let last = child.fork().unwrap();
        assert_eq!(fault(&last, 0, Access::Read), Err(FaultError::HugetlbEmpty));
        drop(last);
        child.unmap(at(0), BYTES).unwrap();
        grandchild.advise(at(0), BYTES, Advice::DontNeed).unwrap();
        assert_eq!(entry(&grandchild, 0), TAKEN);
        assert_eq!(take_back(&space, 0, &all), Ok(true), "it is this space's alone");
    });
}

#[test]
fn a_page_is_taken_back_only_where_one_was_set_aside_and_all_spaces_are_found() {
    with_pool(1, |_, space| {
        map_unreserved(&space, 0, 1);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        assert_eq!(fault(&space, 0, Access::Write), Err(FaultError::HugetlbEmpty));
        assert_eq!(take_back(&space, 0, &[&space, &child]), Ok(false));
        assert_eq!(take_back(&space, 9, &[&space, &child]), Ok(false), "nothing is mapped there");
        assert_eq!(peek(&child, 0), Some(1));
    });
    with_pool(1, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        assert_eq!(take_back(&space, 0, &[&space]), Err(RmapError::SpaceMissing));
        assert_eq!(peek(&child, 0), Some(1));
        let limit = Limit::new(9);
        assert_eq!(space.pin_pages(at(0), Access::Read, &limit, slots(1)).map(drop), Err(Error::Fault));
        assert_eq!(take_back(&space, 0, &[&space, &child]), Ok(true));
        assert!(space.pin_pages(at(0), Access::Read, &limit, slots(1)).is_ok());
    });
}

#[test]
fn a_pin_is_of_a_page_that_is_the_spaces_alone() {
    with_paths(2, 1, |vm, space| {
        let child = space.fork().unwrap();
        let limit = Limit::new(9);
        let fast = child.try_pin_fast(at(0), Access::Read, &limit, slots(1), &vm.read());
        assert!(fast.is_err(), "a page is pinned that another space has");
        // To read, too: what a device reads is what the program stores.
        let pins = child.pin_pages(at(0), Access::Read, &limit, slots(1)).unwrap();
        assert_ne!(pfn(&child, 0), pfn(&space, 0));
        store(&child, 0, 5);
        assert_eq!((pfns(&pins)[0], peek(&child, 0), peek(&space, 0)), (pfn(&child, 0), Some(5), Some(1)));
        // The parent has its page alone now: its pin copies nothing.
        let before = pfn(&space, 0);
        drop(space.pin_pages(at(0), Access::Read, &limit, slots(1)).unwrap());
        assert_eq!(pfn(&space, 0), before);
        drop(pins);
    });
}

#[test]
fn what_a_child_shares_is_dropped_and_another_page_set_aside_if_there_is_one() {
    with_paths(3, 2, |vm, space| {
        let child = space.fork().unwrap();
        space.advise(at(0), 2 * BYTES, Advice::DontNeed).unwrap();
        // One is available, for the first of the two.
        assert_eq!(counts(vm, &[&space, &child], 2), (1, 1));
        assert_eq!(
            (entry(&space, 0), entry(&space, 1)),
            (SlotMarker::HugetlbReserved.entry(), Entry::Absent)
        );
        assert_eq!([0, 1].map(|page| peek(&child, page)), [1, 2].map(Some));
        drop(child);
        assert_eq!(counts(vm, &[&space], 2), (3, 1));
    });
    // Once the child has gone, the page is the parent's own again.
    with_paths(1, 1, |vm, space| {
        drop(space.fork().unwrap());
        space.advise(at(0), BYTES, Advice::DontNeed).unwrap();
        assert_eq!(counts(vm, &[&space], 1), (1, 1));
    });
}

#[test]
fn rights_are_the_mappings_and_a_shared_page_is_not_written_for_them() {
    with_paths(2, 1, |_, space| {
        let child = space.fork().unwrap();
        child.protect(at(0), BYTES, VmaFlags::READ).unwrap();
        assert_eq!(fault(&child, 0, Access::Write), Err(FaultError::NotAllowed));
        child.protect(at(0), BYTES, RW).unwrap();
        assert!(!leaf(&child, 0).unwrap().rights.contains(Rights::WRITE));
        store(&child, 0, 3);
        assert_eq!((peek(&space, 0), peek(&child, 0)), (Some(1), Some(3)));
        // A debugger's store is the program's.
        assert_eq!(space.copy_to(at(0), &[4]), Ok(1));
        assert_eq!(peek(&child, 0), Some(3));
    });
}

/// A store through a translation from before the fork may still come until that has flushed.
#[test]
fn a_page_is_not_copied_while_a_fork_shares_it() {
    with_pool(2, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        let page = at(0).vpn();
        let fork = space.entries.fork.begin();
        fork.advance(page);
        assert!(space.entries.shared_hugetlb_page(page).is_some(), "it was not swept yet");
        fork.advance(page.add(HUGE));
        assert!(space.entries.shared_hugetlb_page(page).is_none());
        drop(fork);
        assert!(space.entries.shared_hugetlb_page(page).is_some());
        assert!(child.entries.shared_hugetlb_page(page).is_some());
    });
}
