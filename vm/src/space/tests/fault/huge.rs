//! Which faults install a huge page.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{
    BASE, HUGE, THP, TestSpace, at, counted, fault, is_huge, leaf, map, peek, resident, store, with_frames,
    with_space,
};
use crate::space::{AddressSpace, Advice, Fault, MapRequest, Path, Place, Sharing};
use crate::units::{Access, Vpn};
use crate::vma::{FlagAdvice, HugePolicy, ThpDisable};

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
