//! mTHP sizes: which faults install a folio, and that its pages are base pages
//! from then on.

use crate::space::fault::{Prepared, Speculated};
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{
    BASE, HUGE, THP, at, counted, fault, is_huge, leaf, map, peek, resident, store, with_sizes,
};
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::tests::world::sizes::{folios, frame, with_only};
use crate::space::{AddressSpace, Advice, Fallback, Fault, MapRequest, Path, Place, Sharing};
use crate::units::{Access, Order, Rights, Vpn};
use crate::vma::{FlagAdvice, HugePolicy, MthpPolicies, MthpPolicy, ThpDisable, VmaFlags};

#[test]
fn a_write_fault_installs_a_folio_of_each_size_as_exclusive_base_pages() {
    for (order, path) in MthpPolicies::orders().flat_map(|o| Path::ALL.map(|path| (o, path))) {
        with_only(order.0, |vm, space| {
            let space = AddressSpace::new(vm, *space.layout(), path).unwrap();
            map(&space, 0, HUGE);
            let outcome = space.fault(Fault { addr: at(261), access: Access::Write }).unwrap();
            assert_eq!(outcome, path.outcome());
            let (frames, start) = (order.frames(), 261 & !(order.frames() - 1));
            let first = frame(&space, start);
            assert!(first.is_aligned(order));
            for page in start..start + frames {
                let (leaf, covers) = leaf(&space, page).unwrap();
                assert!(covers == 1 && leaf.owned() && leaf.accessed && leaf.dirty);
                assert!(leaf.rights.contains(Rights::WRITE));
                assert_eq!((leaf.pfn, peek(&space, page)), (first.add(page - start), Some(0)));
                let meta = vm.memory().meta(leaf.pfn).unwrap();
                let state = meta.state();
                assert!(state.is_exclusive() && state.order() == Order::BASE);
                assert_eq!((state.refcount(), meta.mapcount(), meta.pincount()), (1, 1, 0));
            }
            assert_eq!((resident(&space, HUGE), folios(vm, order.0)), (frames, (1, 0)));
            // No other fault is needed in it, and the next one installs the next folio.
            fault(&space, start, Access::Write);
            assert_eq!(folios(vm, order.0), (1, 0));
            fault(&space, (start + frames) % HUGE, Access::Write);
            assert_eq!((resident(&space, HUGE), folios(vm, order.0)), (2 * frames, (2, 0)));
        });
    }
}

#[test]
fn a_folio_shows_zeros_whatever_its_frames_held() {
    with_only(4, |vm, space| {
        map(&space, 0, 4 * HUGE);
        (0..4 * HUGE).for_each(|page| store(&space, page, 0xaa));
        space.unmap(at(0), 4 * HUGE * PAGE).unwrap();
        vm.trim();
        map(&space, 0, 4 * HUGE);
        (0..4 * HUGE).step_by(16).for_each(|page| fault(&space, page, Access::Write));
        assert!((0..4 * HUGE).all(|page| peek(&space, page) == Some(0)));
        assert_eq!(folios(vm, 4).0, 2 * 4 * HUGE / 16);
    });
}

#[test]
fn the_largest_folio_that_fits_the_mapping_and_the_absent_entries_is_installed() {
    let sizes = MthpPolicies::all(MthpPolicy::Always);
    with_sizes(8 * HUGE, (HugePolicy::Never, sizes), |vm, space| {
        map(&space, 12, 100);
        store(&space, 13, 1);
        assert_eq!((resident(&space, HUGE), folios(vm, 2)), (4, (1, 0)), "the mapping begins at 12");
        store(&space, 40, 1);
        assert_eq!((resident(&space, HUGE), folios(vm, 5)), (36, (1, 0)));
        fault(&space, 70, Access::Read);
        store(&space, 80, 1);
        assert_eq!(folios(vm, 4), (1, 0), "a zero page is in 64 to 95, and the mapping ends at 112");
        store(&space, 65, 1);
        assert_eq!(folios(vm, 2), (2, 0), "64 to 67");
        store(&space, 69, 1);
        store(&space, 70, 2);
        assert_eq!((resident(&space, HUGE), folios(vm, 2)), (36 + 16 + 1 + 4 + 1, (2, 0)), "base pages");
        assert_eq!((peek(&space, 70), peek(&space, 71)), (Some(2), None));
    });
}

#[test]
fn a_load_maps_the_zero_page_alone_and_shared_memory_has_base_pages() {
    with_only(4, |vm, space| {
        map(&space, 0, 64);
        fault(&space, 3, Access::Read);
        assert_eq!((resident(&space, 64), folios(vm, 4)), (1, (0, 0)));
        let place = Place::Fixed(at(64));
        let request = MapRequest { place, sharing: Sharing::Shared, ..MapRequest::anonymous(64 * PAGE) };
        space.map(&request).unwrap();
        store(&space, 64, 1);
        assert_eq!((resident(&space, 128), folios(vm, 4)), (2, (0, 0)));
    });
}

#[test]
fn each_sizes_policy_the_advice_and_the_refusal_decide() {
    use HugePolicy::{Always as HugeAlways, Madvise as HugeMadvise, Never as HugeNever};
    use MthpPolicy::*;
    let none = (None, ThpDisable::None);
    let advised = (Some(FlagAdvice::HugePage), ThpDisable::None);
    let cases = [
        (Never, HugeMadvise, advised, false),
        (Madvise, HugeNever, none, false),
        (Madvise, HugeNever, advised, true),
        (Madvise, HugeNever, (Some(FlagAdvice::NoHugePage), ThpDisable::None), false),
        (Always, HugeNever, none, true),
        (Always, HugeNever, (Some(FlagAdvice::NoHugePage), ThpDisable::None), false),
        (Always, HugeNever, (None, ThpDisable::Completely), false),
        (Always, HugeNever, (Some(FlagAdvice::HugePage), ThpDisable::Completely), false),
        (Always, HugeNever, (None, ThpDisable::ExceptAdvised), false),
        (Always, HugeNever, (Some(FlagAdvice::HugePage), ThpDisable::ExceptAdvised), true),
        (Inherit, HugeNever, advised, false),
        (Inherit, HugeMadvise, none, false),
        (Inherit, HugeMadvise, advised, true),
        (Inherit, HugeAlways, none, true),
    ];
    for (nth, (policy, huge, (advice, thp_disable), expected)) in cases.into_iter().enumerate() {
        let sizes = MthpPolicies::NEVER.with(Order(3), policy);
        with_sizes(8 * HUGE, (huge, sizes), |vm, space| {
            // No room for a huge page.
            map(&space, 0, HUGE - 8);
            if let Some(advice) = advice {
                space.advise(at(0), 64 * PAGE, Advice::Flag(advice)).unwrap();
            }
            space.set_thp_disable(thp_disable);
            store(&space, 9, 1);
            let due = if expected { (8, (1, 0)) } else { (1, (0, 0)) };
            assert_eq!((resident(&space, HUGE), folios(vm, 3)), due, "case {nth}");
        });
    }
}

#[test]
fn a_huge_page_is_tried_first_and_a_size_where_it_does_not_fit() {
    let sizes = MthpPolicies::all(MthpPolicy::Inherit);
    with_sizes(8 * HUGE, (HugePolicy::Always, sizes), |vm, space| {
        map(&space, 0, 2 * HUGE - 1);
        store(&space, 3, 1);
        assert!(is_huge(&space, 3));
        store(&space, HUGE, 1);
        assert_eq!((resident(&space, 2 * HUGE), folios(vm, 8)), (HUGE + 256, (1, 0)));
        space.unmap(at(3), PAGE).unwrap();
        map(&space, 3, 1);
        store(&space, 3, 1);
        assert_eq!(counted(vm, THP), [1, 0, 1, 0]);
    });
}

#[test]
fn pages_of_a_folio_are_base_pages_for_every_call() {
    with_only(4, |vm, space| {
        map(&space, 0, 64);
        (0..64).step_by(16).for_each(|page| store(&space, page, 1));
        (0..64).for_each(|page| store(&space, page, page as u8));
        assert_eq!(folios(vm, 4), (4, 0));
        space.unmap(at(5), 3 * PAGE).unwrap();
        space.protect(at(20), 2 * PAGE, VmaFlags::READ).unwrap();
        space.advise(at(40), PAGE, Advice::DontNeed).unwrap();
        let child = space.fork().unwrap();
        store(&child, 33, 99);
        let due = |page: u64| match page {
            5..8 | 40 => None,
            page => Some(page as u8),
        };
        assert!((0..64).all(|page| peek(&space, page) == due(page)));
        assert_eq!((peek(&child, 33), peek(&child, 32)), (Some(99), Some(32)));
        assert_ne!(frame(&child, 33), frame(&space, 33));
        assert_eq!(frame(&child, 32), frame(&space, 32));
        // The hole that a discard has left is one page: no block fits.
        store(&space, 40, 7);
        assert_eq!((resident(&space, 64), folios(vm, 4)), (61, (4, 0)));
        drop(child);
        let limit = Limit::new(10);
        let pins = space.pin_pages(at(48), Access::Write, &limit, slots(4)).unwrap();
        assert_eq!(pins.frames().next().unwrap().pfn(), frame(&space, 48));
        drop(pins);
        vm.memory().check().unwrap();
    });
}

#[test]
fn a_fault_for_a_folio_waits_for_a_fork_that_has_passed_its_first_page() {
    with_only(4, |vm, space| {
        map(&space, 0, 64);
        let under_way = space.entries.fork.begin();
        under_way.advance(Vpn(BASE + 17));
        let mut prepared = Prepared::new(vm);
        let write = |page| Fault { addr: at(page), access: Access::Write };
        // The first attempt links the table.
        assert_eq!(space.faults().attempt(write(30), &Speculated, &mut prepared), Err(Fallback::Unprepared));
        space.entries.bring(&mut prepared);
        assert_eq!(space.faults().attempt(write(30), &Speculated, &mut prepared), Err(Fallback::Forking));
        assert_eq!(
            space.faults().attempt(write(40), &Speculated, &mut prepared),
            Ok(()),
            "the next folio is ahead"
        );
        drop(under_way);
        assert_eq!(
            space.faults().attempt(write(30), &Speculated, &mut prepared),
            Err(Fallback::Unprepared),
            "it was used"
        );
        space.entries.bring(&mut prepared);
        assert_eq!(
            (space.faults().attempt(write(30), &Speculated, &mut prepared), folios(vm, 4)),
            (Ok(()), (2, 0))
        );
    });
}
