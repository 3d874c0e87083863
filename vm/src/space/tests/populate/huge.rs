//! Populating makes huge pages.

use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{HUGE, THP, at, counted, is_huge, map, resident, with_space};
use crate::space::tests::world::sizes::{folios, with_only};
use crate::space::tests::world::zero::{ZERO, is_zero, with_zero};
use crate::space::{Advice, MapRequest, Place};

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
fn populating_makes_folios() {
    with_only(5, |vm, space| {
        map(&space, 0, HUGE);
        space.advise(at(16), 96 * PAGE, Advice::PopulateWrite).unwrap();
        assert_eq!((folios(vm, 5), resident(&space, HUGE)), ((4, 0), 128));
    });
}

#[test]
fn populating_for_loads_maps_it() {
    with_zero(|vm, space| {
        map(&space, 0, 4 * HUGE);
        space.advise(at(0), 4 * HUGE * PAGE, Advice::PopulateRead).unwrap();
        assert!((0..4).all(|nth| is_zero(&space, nth * HUGE)));
        assert_eq!(counted(vm, ZERO), [1, 0, 0, 0]);
    });
}
