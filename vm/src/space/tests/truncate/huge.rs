//! Truncation and holes that cut folios.

use crate::machine::Format;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, at};
use crate::space::tests::world::shared_huge::{
    Space, fault, in_each, is_base, is_huge, leaf, load, map, recount, shared, store,
};
use crate::space::{Fault, FaultError, Vm};
use crate::units::Access;

/// A folio whose middle becomes the end: one space maps it by a huge leaf, the other by base leaves.
fn cut<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: &Space<'_, F>, may_allocate: bool) {
    let child = shared(space);
    let (object, _) = space.object_at(at(0)).unwrap();
    child.protect(at(3), PAGE, crate::vma::VmaFlags::READ).unwrap();
    let spaces = [space, &child];
    let hold = |id| spaces.into_iter().find(|space| space.id() == id);
    if !may_allocate {
        vm.memory().plan_mishaps(1, u64::MAX);
    }
    let reach = object.set_len_bytes((HUGE + 100) * PAGE, hold).unwrap();
    vm.memory().plan_mishap(0);
    assert_eq!((reach.found, reach.missing), (2, 0));
    for space in spaces {
        assert_eq!((load(space, 7), load(space, HUGE - 1)), (7, (HUGE - 1) as u8));
        for page in [HUGE, HUGE + 99] {
            assert_eq!(load(space, page), page as u8);
            assert!(is_base(space, page), "no huge leaf reaches beyond the end");
        }
        for page in [HUGE + 100, 2 * HUGE - 1] {
            let fault = Fault { addr: at(page), access: Access::Write };
            assert_eq!(space.fault(fault), Err(FaultError::Beyond));
            assert_eq!(leaf(space, page), None);
        }
    }
    let left = if may_allocate { HUGE + 100 } else { 2 * HUGE };
    assert_eq!(recount(vm, &spaces), left);
    let _reach = object.set_len_bytes(2 * HUGE * PAGE, hold).unwrap();
    for space in spaces {
        for page in [HUGE + 100, 2 * HUGE - 1] {
            assert_eq!(load(space, page), 0, "page {page}");
        }
        assert_eq!(load(space, HUGE + 99), (HUGE + 99) as u8);
    }
    store(space, 2 * HUGE - 1, 3);
    assert_eq!(load(&child, 2 * HUGE - 1), 3);
    recount(vm, &spaces);
    // A folio that goes as a whole leaves room for another one.
    let _reach = object.punch_hole(HUGE * PAGE, HUGE * PAGE, hold).unwrap();
    store(space, HUGE + 5, 4);
    assert_eq!((load(&child, HUGE + 5), load(&child, HUGE + 6)), (4, 0));
    recount(vm, &spaces);
}

#[test]
fn a_folio_that_the_end_cuts_gives_its_frames_beyond_back() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        cut(vm, &space, true);
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn without_memory_for_a_node_the_frames_beyond_the_end_are_zeroed() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        cut(vm, &space, false);
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn a_hole_in_a_folio_shows_zeros_and_the_rest_stays() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        (0..HUGE).for_each(|page| store(&space, page, 1 + page as u8 % 200));
        assert!(is_huge(&space, 0));
        let (object, _) = space.object_at(at(0)).unwrap();
        let reach = object.punch_hole(10 * PAGE, 20 * PAGE, |_| Some(&space)).unwrap();
        assert_eq!(reach.found, 1);
        for page in 0..HUGE {
            let due = if (10..30).contains(&page) { 0 } else { 1 + page as u8 % 200 };
            assert_eq!(load(&space, page), due, "page {page}");
        }
        assert_eq!(recount(vm, &[&space]), HUGE);
        fault(&space, 12, Access::Write);
    }
    in_each!(8 * HUGE, Always, test);
}
