//! A child shares the pages of its parent, and has none set aside.

use crate::machine::testing::TestMachine;
use crate::machine::{Entry, Leaf};
use crate::space::tests::world::pins::{Limit, pfns, slots};
use crate::space::tests::world::pool::{
    BYTES, HUGE, MIDDLE, at, counts, entry, fault, free, leaf, map, map_shared, middle, object, peek, record,
    request, store, with_pool,
};
use crate::space::tests::world::{boot_map, space_of};
use crate::space::{Advice, Error, FaultError, Vm, VmOptions};
use crate::units::{Access, PageSize, Rights};
use crate::vma::FlagAdvice;

#[test]
fn a_fork_shares_each_page_and_takes_none_of_the_pool() {
    with_pool(4, |vm, space| {
        map(&space, 0, 3);
        (0..2).for_each(|page| store(&space, page, page as u8 + 1));
        assert_eq!(counts(vm, &[&space], 3), (2, 1));
        let child = space.fork().unwrap();
        let grandchild = child.fork().unwrap();
        assert_eq!(counts(vm, &[&space, &child, &grandchild], 3), (2, 1));
        for page in 0..2 {
            let first = leaf(&space, page).unwrap();
            assert_eq!(record(vm, first.pfn), (3, 1, false));
            for other in [&child, &grandchild] {
                assert_eq!(leaf(other, page).unwrap().pfn, first.pfn);
                assert_eq!(peek(other, page), Some(page as u8 + 1));
            }
            for one in [&space, &child, &grandchild] {
                assert!(!leaf(one, page).unwrap().rights.contains(Rights::WRITE));
                fault(one, page, Access::Read).unwrap();
            }
        }
        // What was not touched is set aside for the parent alone.
        assert_eq!(entry(&child, 2), Entry::Absent);
        fault(&child, 2, Access::Read).unwrap();
        assert_eq!(fault(&grandchild, 2, Access::Write), Err(FaultError::HugetlbEmpty));
        store(&space, 2, 3);
        drop(child);
        assert_eq!(counts(vm, &[&space, &grandchild], 3), (1, 0));
        drop(space);
        assert_eq!((peek(&grandchild, 1), counts(vm, &[&grandchild], 3)), (Some(2), (2, 0)));
    });
}

#[test]
fn what_a_child_drops_is_not_set_aside_for_it() {
    with_pool(3, |vm, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        store(&child, 0, 3);
        assert_eq!((peek(&space, 0), counts(vm, &[&space, &child], 1)), (Some(1), (1, 0)));
        child.advise(at(0), BYTES, Advice::DontNeed).unwrap();
        assert_eq!((entry(&child, 0), counts(vm, &[&space, &child], 1)), (Entry::Absent, (2, 0)));
        drop(space);
        store(&child, 0, 2);
        assert_eq!(peek(&child, 0), Some(2));
    });
}

#[test]
fn no_tlb_allows_stores_after_the_fork() {
    with_pool(2, |vm, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        let running = space.activate(None);
        let page = at(0).vpn();
        assert!(vm.machine().translate(page, Access::Write).is_some());
        let child = space.fork().unwrap();
        let may_write = |leaf: Leaf| leaf.rights.contains(Rights::WRITE);
        assert!(!vm.machine().cached(0, page).is_some_and(may_write), "a TLB still allows stores");
        assert!(!leaf(&space, 0).is_some_and(may_write));
        fault(&space, 0, Access::Write).unwrap();
        assert!(leaf(&space, 0).is_some_and(may_write));
        drop(running);
        assert_eq!(peek(&child, 0), Some(1));
    });
}

#[test]
fn what_is_pinned_is_copied_and_without_a_page_for_that_there_is_no_child() {
    with_pool(3, |vm, space| {
        map(&space, 0, 2);
        (0..2).for_each(|page| store(&space, page, page as u8 + 1));
        let limit = Limit::new(9);
        let pins = space.pin_pages(at(1), Access::Write, &limit, slots(1)).unwrap();
        let running = space.activate(None);
        assert!(vm.machine().translate(at(1).vpn(), Access::Write).is_some());
        let child = space.fork().unwrap();
        let may_write = |leaf: Leaf| leaf.rights.contains(Rights::WRITE);
        assert!(!vm.machine().cached(0, at(1).vpn()).is_some_and(may_write), "stored while it is copied");
        drop(running);
        assert_eq!(leaf(&child, 0).unwrap().pfn, leaf(&space, 0).unwrap().pfn);
        assert_ne!(leaf(&child, 1).unwrap().pfn, leaf(&space, 1).unwrap().pfn);
        assert_eq!(counts(vm, &[&space, &child], 2), (0, 0));
        assert_eq!(space.fork().map(drop), Err(Error::NoMemory));
        assert_eq!(
            [0, 1].map(|page| (peek(&space, page), peek(&child, page))),
            [1, 2].map(|b| (Some(b), Some(b)))
        );
        // The parent writes its own in place, and what a fork that failed had shared.
        store(&space, 1, 20);
        drop(child);
        let before = leaf(&space, 0).unwrap().pfn;
        store(&space, 0, 10);
        assert_eq!((leaf(&space, 0).unwrap().pfn, counts(vm, &[&space], 2)), (before, (1, 0)));
        assert_eq!(space.fork().map(|child| peek(&child, 1)), Ok(Some(20)));
        drop(pins);
    });
}

#[test]
fn mappings_that_are_not_copied_cost_the_pool_nothing() {
    with_pool(2, |vm, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        space.advise(at(0), BYTES, Advice::Flag(FlagAdvice::DontFork)).unwrap();
        let child = space.fork().unwrap();
        assert_eq!((child.inspect().nr_mappings(), counts(vm, &[&space, &child], 1)), (0, (1, 0)));
    });
}

#[test]
fn pages_of_the_pool_lie_among_base_pages_huge_zero_pages_and_pinned_ones() {
    let machine = TestMachine::with_cpus(12 * HUGE, 2);
    let options = VmOptions { huge_pages: crate::vma::HugePolicy::Always, ..VmOptions::default() };
    let vm = Vm::start(boot_map(&machine).claim(&machine).unwrap(), options).unwrap();
    vm.resize_hugetlb(PageSize::Huge, 2);
    let space = space_of(&vm);
    // Base pages that are pinned, huge zero pages, a page of the pool, and pinned base pages again.
    space.map(&request(0, 4)).unwrap();
    space.advise(at(0), BYTES, Advice::Flag(FlagAdvice::NoHugePage)).unwrap();
    for page in 1..4 {
        fault(&space, page, Access::Read).unwrap();
    }
    map(&space, 4, 1);
    store(&space, 4, 4);
    space.map(&request(5, 1)).unwrap();
    space.advise(at(5), BYTES, Advice::Flag(FlagAdvice::NoHugePage)).unwrap();
    let limit = Limit::new(9);
    let pins = [0, 5].map(|page| space.pin_pages(at(page), Access::Write, &limit, slots(1)).unwrap());
    let child = space.fork().unwrap();
    assert_eq!(peek(&child, 4), Some(4));
    for page in [0, 5] {
        let mut byte = [1];
        child.copy_from(at(page), &mut byte).unwrap();
        assert_eq!(byte, [0]);
    }
    drop((pins, child, space));
    vm.trim();
    vm.memory().check().unwrap();
}

#[test]
fn a_fork_copies_what_is_pinned() {
    with_pool(2, |_, space| {
        map(&space, 0, 1);
        store(&space, 0, 6);
        let limit = Limit::new(9);
        let pins = space.pin_pages(middle(0), Access::Write, &limit, slots(1)).unwrap();
        let child = space.fork().unwrap();
        store(&space, 0, 7);
        assert_eq!((peek(&space, 0), peek(&child, 0)), (Some(7), Some(6)));
        assert_eq!(leaf(&space, 0).unwrap().pfn.add(MIDDLE), pfns(&pins)[0], "the parent keeps its own");
        drop(pins);
    });
}

#[test]
fn parent_and_child_see_each_others_stores() {
    with_pool(3, |vm, space| {
        map_shared(&space, 0, 2);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        assert_eq!(free(vm), (2, 1), "a fork copies nothing");
        fault(&child, 0, Access::Read).unwrap();
        assert_eq!(peek(&child, 0), Some(1));
        store(&child, 0, 2);
        assert_eq!(peek(&space, 0), Some(2));
        // The child's fault takes what was set aside for the object.
        store(&child, 1, 3);
        assert_eq!((free(vm), object(&space, 1)), ((1, 0), (2, 0)));
        store(&space, 1, 4);
        assert_eq!(peek(&child, 1), Some(4));
        let (here, there) = (leaf(&space, 1).unwrap(), leaf(&child, 1).unwrap());
        assert_eq!(here.pfn, there.pfn);
        let meta = vm.memory().meta(here.pfn).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount()), (2, 2), "two entries, and the object");
        drop(space);
        assert_eq!((free(vm), peek(&child, 1)), ((1, 0), Some(4)));
    });
}
