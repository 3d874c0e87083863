//! Stores to pages that forks have shared: a copy, in place where no other space has the page, or taken back.

use crate::space::tests::world::pool::{
    BYTES, HUGE, RW, at, counts, fault, leaf, map, peek, pfn, record, store, take_back, with_paths, with_pool,
};
use crate::space::{Counter, Error, FaultError, Outcome};
use crate::units::{Access, Rights};
use crate::vma::VmaFlags;

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
