//! mmap over huge pages of shared memory.

use crate::machine::Format;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::huge::{BASE, HUGE, at};
use crate::space::tests::world::shared_huge::{
    Space, in_each, is_huge, load, map, recount, request, shared, store,
};
use crate::space::{MapRequest, Place, Vm};
use crate::units::VirtAddr;

#[test]
fn a_mapping_put_over_a_part_leaves_the_rest() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        map(&space, 5, 3);
        assert_eq!([4, 5, 7, 8].map(|page| load(&space, page)), [4, 0, 0, 8]);
        store(&space, 5, 55);
        assert_eq!((load(&child, 5), is_huge(&child, 5)), (5, true));
        assert_eq!(recount(vm, &[&space, &child]), 2 * HUGE + 2);
        space.unmap(at(0), 2 * HUGE * PAGE).unwrap();
        assert_eq!(recount(vm, &[&space, &child]), 2 * HUGE);
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn a_mapping_that_may_go_anywhere_begins_at_a_huge_page_unless_its_hint_is_free() {
    fn test<F: Format>(_: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let place = |place, pages| {
            let addr = space.map(&MapRequest { place, ..request(0, pages) }).unwrap();
            addr.vpn().0 % HUGE
        };
        let anywhere = || Place::Hint(VirtAddr(0));
        let small = place(anywhere(), 3);
        assert_ne!(small, 0, "below the stack's room");
        assert_eq!([HUGE, HUGE + 5, 2 * HUGE].map(|pages| place(anywhere(), pages)), [0; 3]);
        assert_eq!(place(Place::Hint(at(7)), HUGE), (BASE + 7) % HUGE);
        assert_eq!(place(Place::Hint(at(7)), HUGE), 0, "there is something");
    }
    in_each!(6 * HUGE, Advise, test);
    fn never<F: Format>(_: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let hint = Place::Hint(VirtAddr(0));
        space.map(&MapRequest { place: hint, ..request(0, 3) }).unwrap();
        let addr = space.map(&MapRequest { place: hint, ..request(0, HUGE) }).unwrap();
        assert_ne!(addr.vpn().0 % HUGE, 0, "as near as can be");
    }
    in_each!(4 * HUGE, Never, never);
}
