//! Which faults install a huge page.

use super::*;
use crate::space::{Advice, FaultError, Path, Sharing};
use crate::vma::{FlagAdvice, ThpDisable, VmaFlags};

#[test]
fn a_write_fault_makes_a_huge_page_of_zeros_present() {
    for path in Path::ALL {
        with_frames(8 * HUGE, HugePolicy::Always, |vm, space| {
            let space = AddressSpace::new(vm, *space.layout(), path).unwrap();
            map(&space, 0, 2 * HUGE);
            let outcome = space.fault(Fault { addr: at(HUGE + 77), access: Access::Write }).unwrap();
            assert_eq!(outcome, path.outcome());
            let (leaf, covers) = leaf(&space, HUGE).unwrap();
            assert!(covers == HUGE && leaf.owned() && leaf.dirty && leaf.pfn.0.is_multiple_of(HUGE));
            assert!((HUGE..2 * HUGE).all(|page| peek(&space, page) == Some(0)));
            assert_eq!(peek(&space, HUGE - 1), None);
            let meta = vm.memory().meta(leaf.pfn).unwrap();
            let state = meta.state();
            assert!(state.is_exclusive() && state.order().frames() == HUGE);
            assert_eq!((state.refcount(), meta.mapcount()), (1, 1));
            assert_eq!(counted(vm, THP), [1, 0, 0, 1]);
            let mut visited = 0;
            space.mincore(at(HUGE), HUGE * PAGE, |_, resident| visited += u64::from(resident)).unwrap();
            assert_eq!(visited, HUGE);
            // Every page of it is there.
            fault(&space, HUGE, Access::Write);
            fault(&space, 2 * HUGE - 1, Access::Read);
            assert_eq!(counted(vm, THP), [1, 0, 0, 1]);
        });
    }
}

#[test]
fn a_huge_page_lies_in_one_mapping() {
    with_space(|vm, space| {
        map(&space, 1, 2 * HUGE);
        store(&space, 5, 1);
        store(&space, 2 * HUGE, 1);
        assert_eq!(counted(vm, THP), [0; 4], "both ends reach beyond the mapping");
        store(&space, HUGE, 1);
        assert!(is_huge(&space, HUGE + 3));
    });
}

#[test]
fn where_a_table_is_there_are_base_pages() {
    with_space(|vm, space| {
        map(&space, 0, HUGE);
        fault(&space, 3, Access::Read);
        store(&space, 4, 1);
        assert_eq!((resident(&space, HUGE), counted(vm, THP)), (2, [0; 4]), "a load links a table");
    });
}

#[test]
fn the_policy_the_advice_and_the_refusal_decide() {
    let advised =
        |advice| move |space: &TestSpace<'_>| space.advise(at(0), HUGE * PAGE, Advice::Flag(advice)).unwrap();
    let refused = |thp_disable| move |space: &TestSpace<'_>| space.set_thp_disable(thp_disable);
    type Case<'a> = (HugePolicy, &'a dyn Fn(&TestSpace<'_>), bool);
    let cases: [Case<'_>; 10] = [
        (HugePolicy::Never, &|_| (), false),
        (HugePolicy::Never, &advised(FlagAdvice::HugePage), false),
        (HugePolicy::Madvise, &|_| (), false),
        (HugePolicy::Madvise, &advised(FlagAdvice::HugePage), true),
        (HugePolicy::Madvise, &advised(FlagAdvice::NoHugePage), false),
        (HugePolicy::Always, &|_| (), true),
        (HugePolicy::Always, &advised(FlagAdvice::NoHugePage), false),
        (HugePolicy::Always, &refused(ThpDisable::Completely), false),
        (HugePolicy::Always, &refused(ThpDisable::ExceptAdvised), false),
        (
            HugePolicy::Always,
            &|space| {
                advised(FlagAdvice::HugePage)(space);
                space.set_thp_disable(ThpDisable::ExceptAdvised);
            },
            true,
        ),
    ];
    for (nth, (policy, prepare, expected)) in cases.into_iter().enumerate() {
        with_frames(8 * HUGE, policy, |_, space| {
            map(&space, 0, HUGE);
            prepare(&space);
            store(&space, 9, 1);
            assert_eq!(is_huge(&space, 9), expected, "case {nth}");
            let child = space.fork().unwrap();
            assert_eq!(child.thp_disable(), space.thp_disable());
        });
    }
}

#[test]
fn a_mapping_that_asks_for_huge_pages_is_split_where_a_range_cuts_it() {
    with_frames(8 * HUGE, HugePolicy::Madvise, |_, space| {
        let place = Place::Fixed(at(0));
        let flags = MapRequest::anonymous(PAGE).flags | VmaFlags::HUGE_PAGE;
        space.map(&MapRequest { place, flags, ..MapRequest::anonymous(HUGE * PAGE) }).unwrap();
        store(&space, 9, 1);
        space.unmap(at(3), PAGE).unwrap();
        assert_eq!((peek(&space, 9), peek(&space, 3)), (Some(1), None), "a mapping that asks for huge pages");
        assert!(!is_huge(&space, 9), "it reaches beyond the mapping");
    });
}

#[test]
fn shared_memory_has_base_pages() {
    with_space(|vm, space| {
        let place = Place::Fixed(at(0));
        let request = MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous(HUGE * PAGE) };
        space.map(&request).unwrap();
        store(&space, 9, 1);
        assert_eq!((counted(vm, THP), resident(&space, HUGE)), ([0; 4], 1));
    });
}

#[test]
fn populating_makes_huge_pages() {
    with_space(|vm, space| {
        map(&space, 0, 3 * HUGE);
        space.advise(at(HUGE / 2), 2 * HUGE * PAGE, Advice::PopulateWrite).unwrap();
        assert_eq!((counted(vm, THP), resident(&space, 3 * HUGE)), ([3, 0, 0, 3], 3 * HUGE));
        let place = Place::Fixed(at(4 * HUGE));
        let request = MapRequest { place, populate: true, ..MapRequest::anonymous(HUGE * PAGE) };
        space.map(&request).unwrap();
        assert!(is_huge(&space, 4 * HUGE));
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
fn a_huge_page_lies_on_the_nodes_of_its_policy() {
    use crate::vma::{PolicyMode, PolicyRequest};
    with_space(|_, space| {
        map(&space, 0, 2 * HUGE);
        let request = PolicyRequest::of(PolicyMode::Bind, 1);
        space.set_policy(at(0), HUGE * PAGE, request, crate::space::Misplaced::Keep).unwrap();
        store(&space, 9, 1);
        assert!(is_huge(&space, 9));
    });
}

#[test]
fn a_fault_for_a_huge_page_waits_for_a_fork_that_has_passed() {
    use crate::space::Fallback;
    use crate::space::fault::{Prepared, Speculated};
    with_space(|vm, space| {
        map(&space, 0, HUGE);
        let under_way = space.entries.fork.begin();
        // The first pages of it.
        under_way.advance(Vpn(BASE + 3));
        let mut prepared = Prepared::new(vm);
        let mut again = || {
            space.faults().attempt(
                Fault { addr: at(HUGE - 1), access: Access::Write },
                &Speculated,
                &mut prepared,
            )
        };
        assert_eq!(again(), Err(Fallback::Unprepared));
        space.entries.bring(&mut prepared);
        let mut again = || {
            space.faults().attempt(
                Fault { addr: at(HUGE - 1), access: Access::Write },
                &Speculated,
                &mut prepared,
            )
        };
        assert_eq!(again(), Err(Fallback::Forking));
        drop(under_way);
        assert_eq!(again(), Ok(()));
        assert!(is_huge(&space, 0));
    });
}

#[test]
fn what_is_mapped_over_a_whole_region_finds_no_table_there() {
    with_space(|_, space| {
        map(&space, 0, HUGE - 1);
        store(&space, 9, 7);
        assert!(!is_huge(&space, 9), "the last page is no mapping's");
        map(&space, 0, HUGE);
        store(&space, 9, 8);
        assert!(is_huge(&space, 9) && peek(&space, 8) == Some(0));
        // A neighbour in the region keeps the table, and its page.
        space.unmap(at(0), HUGE * PAGE).unwrap();
        map(&space, 0, 5);
        map(&space, HUGE - 1, 1);
        store(&space, HUGE - 1, 6);
        map(&space, 0, HUGE - 1);
        store(&space, 9, 7);
        assert!(!is_huge(&space, 9));
        assert_eq!((peek(&space, 9), peek(&space, HUGE - 1)), (Some(7), Some(6)));
    });
}
