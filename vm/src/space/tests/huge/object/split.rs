//! Folios that the object has split into frames with records of their own, and huge leaves of them.

use super::*;
use crate::machine::testing::TestCpu;
use crate::space::MemlockLimit;
use std::vec::Vec;

/// A leaf of a folio that was split is an entry of each of its frames, whose records are counted.
#[test]
fn a_folio_that_was_split_is_mapped_by_huge_leaves_again() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        (0..HUGE).for_each(|page| store(&space, page, page as u8));
        let limit = MemlockLimit::<TestCpu>::new(u64::MAX);
        let pins = space.pin_pages(at(5), Access::Write, &limit, [None]).unwrap();
        let pinned = pins.frames().next().unwrap().pfn();
        let counts = || {
            let meta = vm.memory().meta(pinned).unwrap();
            (meta.mapcount(), meta.state().refcount(), meta.pincount())
        };
        assert!(is_base(&space, 5));
        // The object's, all entries', and the pin's.
        assert_eq!(counts(), (1, 3, 1));
        let others = [(); 3].map(|()| space.fork().unwrap());
        for (nr, other) in (1..).zip(&others) {
            assert_eq!((load(other, 7), is_huge(other, 7)), (7, true));
            assert_eq!(counts(), (1 + nr, 3, 1));
        }
        assert_eq!(counted(vm, THP), [1, 0, 4, 3]);
        // One way to end for each: a part goes, a page is pinned, the space ends.
        let [part, pin, end] = others;
        part.unmap(at(HUGE / 2), HUGE / 2 * PAGE).unwrap();
        assert_eq!((load(&part, 7), is_base(&part, 7)), (7, true));
        drop(pin.pin_pages(at(7), Access::Read, &limit, [None]).unwrap());
        assert_eq!((load(&pin, 8), is_base(&pin, 8), is_huge(&end, 8)), (8, true, true));
        // Base entries of page 5 are in none of them now, but in the first space.
        assert_eq!(counts(), (2, 3, 1));
        drop(pins);
        assert_eq!(recount(vm, &[&space, &part, &pin, &end]), HUGE);
        drop(end);
        assert_eq!((counts(), recount(vm, &[&space, &part, &pin])), ((1, 2, 0), HUGE));
        // Where nothing is left of it, not even a table, there is one again.
        pin.unmap(at(0), HUGE * PAGE).unwrap();
        map_same(&pin, 0, &space, 0, HUGE);
        store(&pin, 9, 99);
        assert_eq!((is_huge(&pin, 9), load(&space, 9), load(&part, 9)), (true, 99, 99));
        drop(part);
        // The leaf is all that maps the frames.
        space.unmap(at(0), HUGE * PAGE).unwrap();
        assert_eq!((counts(), recount(vm, &[&space, &pin])), ((1, 2, 0), HUGE));
    }
    in_each!(8 * HUGE, Always, test);
}

/// Where a frame can have no more references, the others are given back, and base pages are mapped.
#[test]
fn a_folio_of_which_a_frame_cannot_be_referenced_is_mapped_by_base_pages() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        map(&space, 0, HUGE);
        store(&space, 5, 5);
        let child = space.fork().unwrap();
        let limit = MemlockLimit::<TestCpu>::new(u64::MAX);
        drop(space.pin_pages(at(5), Access::Write, &limit, [None]).unwrap());
        let last = shown(&space, 5).unwrap().add(HUGE - 1 - 5);
        let mut references = Vec::new();
        references.extend(core::iter::from_fn(|| vm.memory().try_get(last)));
        assert_eq!((load(&child, 5), is_base(&child, 5)), (5, true));
        drop(references);
        assert_eq!(recount(vm, &[&space, &child]), HUGE);
        let late = space.fork().unwrap();
        assert_eq!((load(&late, 5), is_huge(&late, 5)), (5, true));
    }
    in_each!(8 * HUGE, Always, test);
}
