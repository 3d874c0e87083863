//! A child has copies of what the pool had pages for, and no page set aside.

use super::*;
use crate::space::Advice;
use crate::vma::FlagAdvice;

#[test]
fn a_child_has_copies_as_far_as_pages_are_available() {
    with_pool(6, |vm, space| {
        map(&space, 0, 4);
        (0..3).for_each(|page| store(&space, page, page as u8 + 1));
        assert_eq!(counts(vm, &[&space], 4), (3, 1));
        let child = space.fork().unwrap();
        // Two are copied; the third is set aside for the parent.
        assert_eq!(counts(vm, &[&space, &child], 4), (1, 1));
        assert_eq!([0, 1, 2].map(|page| peek(&child, page)), [Some(1), Some(2), None]);
        assert_eq!(entry(&child, 2), Entry::Marker(Marker::Lost));
        for access in [Access::Read, Access::Write] {
            assert_eq!(fault(&child, 2, access), Err(FaultError::PoolEmpty));
            assert_eq!(fault(&child, 3, access), Err(FaultError::PoolEmpty), "nothing is set aside");
        }
        store(&space, 0, 10);
        store(&child, 1, 20);
        store(&space, 3, 30);
        assert_eq!([0, 1, 2, 3].map(|page| peek(&space, page)), [10, 2, 3, 30].map(Some));
        assert_eq!([0, 1].map(|page| peek(&child, page)), [1, 20].map(Some));
        // What is lost stays lost, in the child's children too, until it is dropped.
        let grandchild = child.fork().unwrap();
        assert_eq!(fault(&grandchild, 2, Access::Read), Err(FaultError::PoolEmpty));
        drop(grandchild);
        space.unmap(at(0), 2 * BYTES).unwrap();
        assert_eq!(fault(&child, 2, Access::Read), Err(FaultError::PoolEmpty));
        child.unmap(at(2), BYTES).unwrap();
        map(&child, 2, 1);
        assert_eq!(counts(vm, &[&space, &child], 4), (2, 1));
        store(&child, 3, 1);
        assert_eq!(counts(vm, &[&space, &child], 4), (1, 1));
    });
}

#[test]
fn what_a_child_drops_is_not_set_aside_for_it() {
    with_pool(3, |vm, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        let child = space.fork().unwrap();
        assert_eq!((peek(&child, 0), counts(vm, &[&space, &child], 1)), (Some(1), (1, 0)));
        child.advise(at(0), BYTES, Advice::DontNeed).unwrap();
        assert_eq!((entry(&child, 0), counts(vm, &[&space, &child], 1)), (Entry::Absent, (2, 0)));
        drop(space);
        store(&child, 0, 2);
        assert_eq!(peek(&child, 0), Some(2));
    });
}

#[test]
fn a_store_beside_the_copy_waits_for_the_fork() {
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
fn mappings_that_are_not_copied_cost_the_pool_nothing() {
    with_pool(2, |vm, space| {
        map(&space, 0, 1);
        store(&space, 0, 1);
        space.advise(at(0), BYTES, Advice::Flag(FlagAdvice::DontFork)).unwrap();
        let child = space.fork().unwrap();
        assert_eq!((child.nr_mappings(), counts(vm, &[&space, &child], 1)), (0, (1, 0)));
    });
}

#[test]
fn pages_of_the_pool_lie_among_base_pages_huge_zero_pages_and_pinned_ones() {
    use crate::space::tests::pin::{Limit, slots};
    let machine = TestMachine::with_cpus(12 * HUGE, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap().with_huge_pages(crate::vma::HugePolicy::Always);
    vm.resize_huge_pool(PageSize::Huge, 2);
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
