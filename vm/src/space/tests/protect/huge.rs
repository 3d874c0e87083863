//! mprotect of huge pages.

use crate::machine::Entry;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{
    BASE, HUGE, THP, assert_kept, at, counted, fault, filled, is_huge, leaf, map, peek, store, with_space,
};
use crate::space::tests::world::zero::{ZERO, is_zero, load, with_table, with_zero};
use crate::space::{Fault, FaultError};
use crate::table::{LeafBits, walk};
use crate::units::{Access, Level, Rights, Vpn};
use crate::vma::VmaFlags;

#[test]
fn protecting_a_part_splits_and_the_whole_does_not() {
    with_space(|vm, space| {
        filled(&space);
        space.protect(at(HUGE), HUGE * PAGE, VmaFlags::READ).unwrap();
        assert!(is_huge(&space, HUGE) && !leaf(&space, HUGE).unwrap().0.rights.contains(Rights::WRITE));
        space.protect(at(7), 2 * PAGE, VmaFlags::READ).unwrap();
        assert_eq!(counted(vm, THP), [2, 0, 1, 1]);
        let may_write = |page| leaf(&space, page).unwrap().0.rights.contains(Rights::WRITE);
        assert!(may_write(6) && !may_write(7) && !may_write(8) && may_write(9));
        assert_kept(&space, 0..0);
    });
}

#[test]
fn rights_come_back_to_a_huge_page_without_a_copy() {
    with_space(|vm, space| {
        map(&space, 0, HUGE);
        store(&space, 9, 7);
        let before = leaf(&space, 9).unwrap().0;
        let read_write = VmaFlags::READ | VmaFlags::WRITE;
        space.protect(at(0), HUGE * PAGE, VmaFlags::READ).unwrap();
        let write = Fault { addr: at(9), access: Access::Write };
        assert_eq!(space.fault(write), Err(FaultError::NotAllowed));
        space.protect(at(0), HUGE * PAGE, VmaFlags::empty()).unwrap();
        space.protect(at(0), HUGE * PAGE, read_write).unwrap();
        fault(&space, 3, Access::Read);
        fault(&space, 9, Access::Write);
        let (after, covers) = leaf(&space, 9).unwrap();
        assert_eq!((after.pfn, after.rights, covers), (before.pfn, before.rights, HUGE));
        assert_eq!((peek(&space, 9), counted(vm, THP)), (Some(7), [1, 0, 0, 1]));
    });
}

#[test]
fn its_leaf_never_becomes_writable_and_stays_one_when_its_rights_change() {
    with_table(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let reading = vm.read();
        let found = walk(space.inspect().page_table(), Vpn(BASE), Level::Pte, &reading);
        let mut table = found.table.lock().unwrap();
        for rights in [Rights::all(), Rights::empty(), Rights::READ | Rights::USER] {
            let change = |leaf| Some(LeafBits { rights, ..LeafBits::of(leaf) });
            assert!(table.adjust_unbounded(found.slot, change).is_some_and(|(leaf, _)| leaf.by_table()));
            let Entry::Leaf(leaf) = table.entry(found.slot) else { panic!() };
            assert_eq!((leaf.by_table(), leaf.rights), (true, rights - Rights::WRITE));
        }
        drop(table);
        drop(reading);
        store(&space, 3, 1);
    });
}

#[test]
fn mprotect_of_all_of_it_keeps_it_and_never_makes_it_writable() {
    with_zero(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let all = HUGE * PAGE;
        space.protect(at(0), all, VmaFlags::READ).unwrap();
        assert!(is_zero(&space, 3));
        assert!(space.fault(Fault { addr: at(3), access: Access::Write }).is_err());
        space.protect(at(0), all, VmaFlags::empty()).unwrap();
        assert!(leaf(&space, 3).is_none_or(|(leaf, _)| leaf.rights.is_empty()));
        space.protect(at(0), all, VmaFlags::READ | VmaFlags::WRITE).unwrap();
        load(&space, 3);
        assert!(is_zero(&space, 3) && !leaf(&space, 3).unwrap().0.rights.contains(Rights::WRITE));
        store(&space, 3, 9);
        assert_eq!((peek(&space, 3), peek(&space, 4)), (Some(9), Some(0)));
        assert_eq!(counted(vm, ZERO), [1, 0, 0, 1]);
    });
}
