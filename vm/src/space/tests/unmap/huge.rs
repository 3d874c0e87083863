//! munmap of huge pages.

use crate::machine::Leaf;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::huge::{
    BASE, HUGE, TestSpace, assert_kept, at, byte_of, counted, filled, is_huge, leaf, map, pages, peek, store,
    with_frames, with_space,
};
use crate::space::tests::world::zero::{ZERO, is_small_zero, is_zero, load, with_zero};
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{Advice, Counter, MapRequest, Place, Vm, VmOptions};
use crate::units::{Access, Pfn, Vpn};
use crate::vma::{HugePolicy, VmaFlags};

#[test]
fn unmapping_a_part_splits_and_the_whole_does_not() {
    for (start, end, splits) in
        [(0, HUGE, 0), (0, 2 * HUGE, 0), (3, 4, 1), (0, 1, 1), (HUGE - 1, HUGE + 1, 2), (5, HUGE, 1)]
    {
        with_space(|vm, space| {
            filled(&space);
            space.unmap(at(start), (end - start) * PAGE).unwrap();
            assert_kept(&space, start..end);
            assert_eq!(vm.totals().get(Counter::ThpSplitPmd), splits, "{start}..{end}");
            assert_eq!(vm.totals().get(Counter::ThpSplitPage), splits);
        });
    }
}

#[test]
fn a_split_makes_frames_of_their_own_with_what_the_hardware_noted() {
    with_space(|vm, space| {
        filled(&space);
        let (before, _) = leaf(&space, 0).unwrap();
        space.unmap(at(3), PAGE).unwrap();
        for page in (0..HUGE).filter(|&page| page != 3) {
            let (after, covers) = leaf(&space, page).unwrap();
            assert_eq!((after, covers), (Leaf { pfn: Pfn(before.pfn.0 + page), ..before }, 1));
            let meta = vm.memory().meta(after.pfn).unwrap();
            assert!(meta.state().is_exclusive() && meta.state().order().frames() == 1);
            assert_eq!((meta.state().refcount(), meta.mapcount()), (1, 1));
        }
        assert!(is_huge(&space, HUGE));
    });
}

#[test]
fn no_cpu_keeps_the_translation_of_a_huge_page_that_went() {
    use crate::machine::Cpu;
    use crate::machine::testing::TestCpu;
    type Call = fn(&TestSpace<'_>);
    let calls: [Call; 4] = [
        |space| space.unmap(at(100), PAGE).unwrap(),
        |space| space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap(),
        |space| space.advise(at(3), PAGE, Advice::DontNeed).unwrap(),
        |space| drop(space.fork().unwrap()),
    ];
    for call in calls {
        let machine = TestMachine::with_cpus(8 * HUGE, 2);
        let options = VmOptions { huge_pages: HugePolicy::Always, ..VmOptions::default() };
        let vm = Vm::start(boot_map(&machine).claim(&machine).unwrap(), options).unwrap();
        let space = space_of(&vm);
        map(&space, 0, HUGE);
        store(&space, 5, 1);
        machine.run_as(1);
        core::mem::forget(space.activate(None));
        assert!(machine.translate(Vpn(BASE + 5), Access::Write).is_some());
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| {
                machine.run_as(0);
                call(&space);
            });
            while !calling.is_finished() {
                TestCpu::relax();
            }
        });
        assert!(!machine.has_cached(1, Vpn(BASE + 5)), "a TLB holds what is gone");
        drop(space.active_here().unwrap());
    }
}

#[test]
fn no_mapping_is_beside_its_huge_page() {
    with_space(|_, space| {
        filled(&space);
        space.unmap(at(0), 2 * HUGE * PAGE).unwrap();
        assert!(!space.inspect().is_any_mapped(at(0), 2 * HUGE * PAGE));
        assert_eq!(pages(0, 2 * HUGE).len(), 2 * HUGE);
    });
}

/// Frames that a child has too wait in their slots for the last flush; the huge page behind them has one of
/// its own, before its table is unlocked.
#[test]
fn frames_that_wait_in_their_slots_go_though_a_huge_page_is_flushed_before() {
    with_space(|vm, space| {
        // The first region is cut, so it gets base pages.
        map(&space, 1, 2 * HUGE - 1);
        (1..6).for_each(|page| store(&space, page, byte_of(page)));
        let child = space.fork().unwrap();
        store(&space, HUGE + 3, 7);
        assert!(is_huge(&space, HUGE) && !is_huge(&space, 1));
        let running = space.activate(None);
        space.advise(at(1), (2 * HUGE - 1) * PAGE, Advice::DontNeed).unwrap();
        assert!((1..2 * HUGE).all(|page| leaf(&space, page).is_none()));
        drop(running);
        assert!((1..6).all(|page| peek(&child, page) == Some(byte_of(page))));
        assert_eq!(vm.memory().check().unwrap().pinned, 0);
    });
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
fn what_cuts_it_splits_it_into_small_zero_pages() {
    let cuts: [&dyn Fn(&TestSpace<'_>); 4] = [
        &|space| space.unmap(at(7), PAGE).unwrap(),
        &|space| space.protect(at(7), PAGE, VmaFlags::empty()).unwrap(),
        &|space| space.advise(at(7), PAGE, Advice::DontNeed).unwrap(),
        &|space| map(space, 7, 1),
    ];
    for (nth, cut) in cuts.into_iter().enumerate() {
        with_zero(|vm, space| {
            map(&space, 0, 2 * HUGE);
            load(&space, 3);
            load(&space, HUGE);
            cut(&space);
            assert!((0..HUGE).filter(|&page| page != 7).all(|page| is_small_zero(&space, page)), "cut {nth}");
            assert!(!is_small_zero(&space, 7) || nth == 1, "cut {nth}");
            assert!(is_zero(&space, HUGE));
            assert_eq!(counted(vm, ZERO), [1, 0, 1, 0], "cut {nth}");
            store(&space, 8, 1);
            assert_eq!((peek(&space, 8), peek(&space, 9)), (Some(1), Some(0)));
        });
    }
}
