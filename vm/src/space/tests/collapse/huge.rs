//! Collapse of regions with zeros of either kind, and with mTHP folios.

use crate::space::pin::PinUse;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{BASE, HUGE, at, counted, is_huge, map, peek, store, with_sizes};
use crate::space::tests::world::zero::{ZERO, is_by_table, is_zero, load, with_table, with_zero};
use crate::space::{Advice, Collapsed};
use crate::units::{Access, Order, Vpn};
use crate::vma::{CollapseLimits, HugePolicy, MthpPolicies, MthpPolicy, Requester};

#[test]
fn folios_collapse_into_a_huge_page() {
    let sizes = MthpPolicies::NEVER.with(Order(6), MthpPolicy::Always);
    with_sizes(8 * HUGE, (HugePolicy::Madvise, sizes), |_, space| {
        map(&space, 0, HUGE);
        (0..HUGE).for_each(|page| store(&space, page, page as u8));
        assert!(!is_huge(&space, 0));
        space.collapse(at(0), HUGE * PAGE).unwrap();
        assert!(is_huge(&space, 0) && (0..HUGE).all(|page| peek(&space, page) == Some(page as u8)));
    });
}

/// A collapse finds a huge page there, and makes one of the table that a split has left.
#[test]
fn a_collapse_leaves_it_and_joins_what_a_split_has_left() {
    with_table(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let collapse = || space.collapse_region(Vpn(BASE), Requester::Program, &CollapseLimits::NONE);
        assert_eq!(collapse(), Ok(Collapsed::Already));
        assert!(is_by_table(&space, 3));
        // The pin's page is memory of its own, the others are small zero pages.
        drop(space.pins().pin_page(Vpn(BASE + 5), PinUse::Access(Access::Write)).unwrap());
        store(&space, 5, 7);
        assert!(!is_by_table(&space, 3));
        assert_eq!(collapse(), Ok(Collapsed::Copied));
        assert!(
            is_huge(&space, 0) && (0..HUGE).all(|page| peek(&space, page) == Some(7 * u8::from(page == 5)))
        );
        assert_eq!(vm.memory().zero_pages().table_frames(), 1);
    });
}

#[test]
fn a_collapse_of_it_has_nothing_to_do() {
    with_zero(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let done = space.collapse_region(Vpn(BASE), Requester::Program, &CollapseLimits::NONE);
        assert_eq!(done, Ok(Collapsed::Already));
        assert_eq!(space.advise(at(0), HUGE * PAGE, Advice::Collapse), Ok(()));
        assert!(is_zero(&space, 5));
        assert_eq!(counted(vm, ZERO), [1, 0, 0, 0]);
    });
}
