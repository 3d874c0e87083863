//! Calls on parts of huge pages of shared memory: the leaf is cleared, the folio stays the object's, and
//! faults bring back what is mapped.

use super::*;
use crate::machine::testing::TestCpu;
use crate::space::{Advice, MemlockLimit};
use crate::table::FastPinRefusal;

/// Two spaces that map a huge page by one leaf each, with a byte in each page.
fn shared<'v, F: Format>(space: &Space<'v, F>) -> Space<'v, F> {
    map(space, 0, 2 * HUGE);
    (0..2 * HUGE).for_each(|page| store(space, page, page as u8));
    let child = space.fork().unwrap();
    assert_eq!((load(&child, 0), load(&child, HUGE)), (0, 0));
    assert!([0, HUGE].iter().all(|&page| is_huge(space, page) && is_huge(&child, page)));
    child
}

#[test]
fn munmap_of_a_part_clears_the_leaf_and_needs_no_memory() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        // More pieces than one: so that the call allocates records, but no table. Both ends are inside.
        let tables = vm.totals().get(Counter::TableAlloc);
        space.unmap(at(HUGE - 2), 4 * PAGE).unwrap();
        assert_eq!(vm.totals().get(Counter::TableAlloc), tables);
        for page in [0, HUGE - 3, HUGE + 2, 2 * HUGE - 1] {
            assert_eq!(leaf(&space, page), None, "page {page} comes by a fault");
        }
        assert_eq!(vm.totals().get(Counter::ThpSplitPmd), 2);
        assert_eq!((counted(vm, THP), recount(vm, &[&space, &child])), ([2, 0, 4, 2], 2 * HUGE));
        for page in [0, HUGE - 3, HUGE + 2, 2 * HUGE - 1] {
            assert_eq!((load(&space, page), is_base(&space, page)), (page as u8, true));
        }
        assert!(is_huge(&child, 0) && is_huge(&child, HUGE), "another space's leaf is its own");
        store(&space, HUGE + 2, 99);
        assert_eq!(load(&child, HUGE + 2), 99);
        assert_eq!(recount(vm, &[&space, &child]), 2 * HUGE);
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn mprotect_of_a_part_takes_no_right_from_other_pages_and_gives_none_to_its_own() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        space.protect(at(10), 20 * PAGE, VmaFlags::READ).unwrap();
        store(&space, 9, 1);
        store(&space, 30, 2);
        assert_eq!((load(&space, 10), load(&child, 9), load(&child, 30)), (10, 1, 2));
        assert!(space.fault(Fault { addr: at(10), access: Access::Write }).is_err());
        // Of a whole one the leaf stays, with fewer rights, and gets them back.
        space.protect(at(HUGE), HUGE * PAGE, VmaFlags::READ).unwrap();
        assert!(is_huge(&space, HUGE));
        assert!(space.fault(Fault { addr: at(HUGE), access: Access::Write }).is_err());
        space.protect(at(HUGE), HUGE * PAGE, RW).unwrap();
        store(&space, HUGE + 1, 3);
        assert!(is_huge(&space, HUGE));
        assert_eq!((load(&child, HUGE + 1), recount(vm, &[&space, &child])), (3, 2 * HUGE));
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn dontneed_drops_entries_and_no_contents() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        space.advise(at(3), 4 * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(leaf(&space, 3), None);
        assert_eq!((load(&space, 3), is_huge(&space, 3)), (3, true), "it is one mapping still");
        space.advise(at(0), 2 * HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_eq!((counted(vm, THP), recount(vm, &[&space, &child])), ([2, 0, 5, 2], 2 * HUGE));
        assert_eq!((load(&space, 7), load(&child, 7)), (7, 7));
        for advice in [Advice::Free, Advice::Collapse] {
            assert_eq!(space.advise(at(0), HUGE * PAGE, advice), Err(Error::Invalid));
        }
        assert_eq!(recount(vm, &[&space, &child]), 2 * HUGE);
    }
    in_each!(8 * HUGE, Always, test);
}

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
fn a_pin_is_of_a_base_page_and_outlives_its_object() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        let limit = MemlockLimit::<TestCpu>::new(u64::MAX);
        let reading = vm.read();
        let fast = space.try_pin_fast(at(5), Access::Write, &limit, [None], &reading);
        assert_eq!(fast.map(drop), Err(FastPinRefusal::Huge));
        drop(reading);
        let pins = space.pin_pages(at(5), Access::Write, &limit, [None]).unwrap();
        let pinned = pins.frames().next().unwrap().pfn();
        assert_eq!(Some(pinned), shown(&child, 5));
        assert!(is_base(&space, 5) && is_huge(&child, 5));
        assert_eq!(space.copy_to(at(6), &[66]), Ok(1));
        assert_eq!(load(&child, 6), 66);
        let mut byte = [0];
        assert_eq!(child.copy_from(at(6), &mut byte), Ok(1));
        assert_eq!((byte, is_huge(&child, 6)), ([66], true), "a load by another process leaves it");
        drop((space, child));
        let meta = vm.memory().meta(pinned).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount(), meta.pincount()), (0, 1, 1));
        let other = vm.memory().meta(pinned.add(1)).unwrap().state();
        assert_ne!(other.kind(), Kind::Object, "the other frames are free");
        drop(pins);
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn pages_that_are_dropped_are_resident_still_as_the_objects() {
    fn test<F: Format>(vm: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let child = shared(&space);
        space.unmap(at(9), PAGE).unwrap();
        let mut resident = 0;
        space.mincore(at(0), 9 * PAGE, |_, is_there| resident += u64::from(is_there)).unwrap();
        assert_eq!(resident, 9);
        let (frame, of_object) = space.inspect().resident_frame(Vpn(BASE + 4)).unwrap();
        assert_eq!((Some(frame), of_object), (shown(&child, 4), true));
        assert_eq!(recount(vm, &[&space, &child]), 2 * HUGE);
    }
    in_each!(8 * HUGE, Always, test);
}

#[test]
fn no_cpu_keeps_a_leaf_that_a_call_has_cleared() {
    fn test<F: Format>(_: &Vm<'_, TestMachine<F>>, space: Space<'_, F>) {
        let machine = space.vm().machine();
        let running = space.activate(None);
        let calls: [fn(&Space<'_, F>); 3] = [
            |space| space.advise(at(3), PAGE, Advice::DontNeed).unwrap(),
            |space| assert_eq!(space.copy_to(at(3), &[1]), Ok(1)),
            |space| space.unmap(at(3), PAGE).unwrap(),
        ];
        for call in calls {
            // Anew, since a pin leaves a table.
            map(&space, 0, HUGE);
            fault(&space, 0, Access::Write);
            assert!(is_huge(&space, 0));
            machine.translate(Vpn(BASE), Access::Write).unwrap();
            call(&space);
            assert!(!machine.has_cached(0, Vpn(BASE)), "the leaf is cached that is gone");
        }
        drop(running);
    }
    in_each!(4 * HUGE, Always, test);
}
