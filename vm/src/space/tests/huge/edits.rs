//! What calls do to huge pages: a whole one stays huge, a part of one is split off.

use super::*;
use crate::frame::PinnedFrame;
use crate::space::tests::world::pins::{Limit, slots};
use crate::space::{Advice, Error};
use crate::table::FastPinRefusal;
use crate::units::{Order, Pfn, Rights};
use crate::vma::{FlagAdvice, VmaFlags};

const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// Two huge pages, each page of which holds its number.
fn filled(space: &TestSpace<'_>) {
    map(space, 0, 2 * HUGE);
    (0..2 * HUGE).for_each(|page| store(space, page, byte_of(page)));
    assert!(is_huge(space, 0) && is_huge(space, HUGE));
}

fn byte_of(page: u64) -> u8 {
    (page % 251) as u8
}

/// Every page of the two but those of `gone` holds its number.
fn assert_kept(space: &TestSpace<'_>, gone: core::ops::Range<u64>) {
    for page in 0..2 * HUGE {
        let expected = (!gone.contains(&page)).then(|| byte_of(page));
        assert_eq!(peek(space, page), expected, "page {page}");
    }
}

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
fn discarding_a_part_splits_and_the_whole_gives_the_folio_back() {
    with_space(|vm, space| {
        filled(&space);
        let before = vm.memory().stats().allocated();
        space.advise(at(HUGE), HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(vm.memory().stats().allocated(), before - HUGE);
        assert_kept(&space, HUGE..2 * HUGE);
        fault(&space, HUGE + 9, Access::Write);
        assert!(is_huge(&space, HUGE) && peek(&space, HUGE + 9) == Some(0));
        space.advise(at(3), 2 * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(counted(vm, THP), [3, 0, 1, 1]);
        assert!((3..5).all(|page| peek(&space, page).is_none()) && peek(&space, 5) == Some(5));
        // There is a table now, so what comes back is a base page.
        store(&space, 3, 9);
        assert_eq!(counted(vm, THP), [3, 0, 1, 1]);
    });
}

#[test]
fn marking_a_whole_huge_page_free_keeps_it_and_a_split_keeps_the_mark() {
    with_space(|vm, space| {
        filled(&space);
        space.advise(at(0), 2 * HUGE * PAGE, Advice::Free).unwrap();
        assert!(is_huge(&space, 0) && !leaf(&space, 0).unwrap().0.dirty);
        let is_free = |page| {
            let (pfn, _) = space.inspect().resident_frame(Vpn(BASE + page)).unwrap();
            vm.memory().meta(pfn).unwrap().state().is_lazyfree()
        };
        assert!(is_free(0) && is_free(HUGE));
        space.unmap(at(3), PAGE).unwrap();
        assert!((0..HUGE).filter(|&page| page != 3).all(is_free));
        space.advise(at(HUGE + 4), PAGE, Advice::Free).unwrap();
        assert!(!is_huge(&space, HUGE) && is_free(HUGE + 4));
    });
}

#[test]
fn mapping_over_a_part_splits() {
    with_space(|vm, space| {
        filled(&space);
        map(&space, HUGE - 2, 4);
        assert_kept(&space, HUGE - 2..HUGE + 2);
        assert_eq!(vm.totals().get(Counter::ThpSplitPmd), 2);
        map(&space, 0, 2 * HUGE);
        assert_eq!(resident(&space, 2 * HUGE), 0);
        store(&space, 0, 1);
        assert!(is_huge(&space, 0), "no table is left");
    });
}

#[test]
fn a_fork_shares_and_a_store_copies_base_pages() {
    with_space(|vm, space| {
        filled(&space);
        let child = space.fork().unwrap();
        assert_eq!(counted(vm, THP), [2, 0, 0, 4]);
        assert_kept(&space, 0..0);
        assert_kept(&child, 0..0);
        store(&child, 5, 99);
        store(&space, HUGE + 5, 98);
        assert_eq!((peek(&space, 5), peek(&child, 5)), (Some(5), Some(99)));
        assert_eq!((peek(&space, HUGE + 5), peek(&child, HUGE + 5)), (Some(98), Some(byte_of(HUGE + 5))));
        // Of what only one of them has.
        map(&child, 3 * HUGE, HUGE);
        store(&child, 3 * HUGE, 1);
        assert!(is_huge(&child, 3 * HUGE) && peek(&space, 3 * HUGE).is_none());
    });
}

#[test]
fn a_pin_splits_and_the_page_keeps_its_frame() {
    with_space(|vm, space| {
        filled(&space);
        let limit = Limit::new(10);
        let before = space.inspect().resident_frame(Vpn(BASE + 9)).unwrap().0;
        let fast = |page| {
            let reading = vm.read();
            space.try_pin_fast(at(page), Access::Read, &limit, slots(1), &reading).err()
        };
        assert_eq!(fast(9), Some(FastPinRefusal::Huge));
        let pins = space.pin_pages(at(9), Access::Write, &limit, slots(2)).unwrap();
        let pfns: std::vec::Vec<Pfn> = pins.frames().map(PinnedFrame::pfn).collect();
        assert_eq!(pfns, [before, Pfn(before.0 + 1)]);
        assert_eq!((counted(vm, THP), fast(10)), ([2, 0, 1, 1], None));
        store(&space, 9, 77);
        assert_eq!(space.inspect().resident_frame(Vpn(BASE + 9)).unwrap().0, before);
        let child = space.fork().unwrap();
        assert_eq!((peek(&child, 9), peek(&child, 12)), (Some(77), Some(12)));
        assert_ne!(child.inspect().resident_frame(Vpn(BASE + 9)).unwrap().0, before, "pinned: copied");
        drop(pins);
    });
}

#[test]
fn others_read_a_huge_page_as_it_is_and_split_it_to_write() {
    with_space(|vm, space| {
        filled(&space);
        let mut bytes = [0; 3 * 4096];
        assert_eq!(space.copy_from(at(HUGE - 2), &mut bytes), Ok(bytes.len()));
        let read: [u8; 3] = core::array::from_fn(|nth| bytes[nth * 4096]);
        assert_eq!(read, [HUGE - 2, HUGE - 1, HUGE].map(byte_of));
        assert_eq!(counted(vm, THP), [2, 0, 0, 2]);
        space.copy_to(at(3), &[55]).unwrap();
        assert_eq!((peek(&space, 3), counted(vm, THP)), (Some(55), [2, 0, 1, 1]));
        space.protect(at(HUGE), HUGE * PAGE, VmaFlags::empty()).unwrap();
        assert_eq!(space.copy_from(at(HUGE), &mut bytes[..1]), Err(Error::Fault));
        space.copy_to_forced(at(HUGE + 1), &[66]).unwrap();
        assert_eq!(peek(&space, HUGE + 1), Some(66));
        space.protect(at(HUGE), HUGE * PAGE, RW).unwrap();
        assert_eq!(space.copy_from(at(HUGE + 1), &mut bytes[..1]), Ok(1));
        assert_eq!(bytes[0], 66);
    });
}

#[test]
fn advice_that_splits_a_mapping_splits_no_huge_page() {
    with_space(|vm, space| {
        filled(&space);
        space.advise(at(7), 9 * PAGE, Advice::Flag(FlagAdvice::DontDump)).unwrap();
        assert_eq!((space.inspect().nr_mappings(), counted(vm, THP)), (3, [2, 0, 0, 2]));
        assert_kept(&space, 0..0);
        // Contents are discarded mapping by mapping, so this one is split.
        space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap();
        assert_kept(&space, 0..HUGE);
        space.advise(at(HUGE), 9 * PAGE, Advice::Flag(FlagAdvice::DontFork)).unwrap();
        let child = space.fork().unwrap();
        assert_kept(&child, 0..HUGE + 9);
    });
}

#[test]
fn the_heap_shrinks_through_a_huge_page() {
    with_space(|_, space| {
        let start = space.layout().heap_start;
        let first = start.vpn().0.next_multiple_of(HUGE);
        let end = Vpn(first + HUGE).addr();
        assert_eq!(space.brk(end), end);
        space.fault(Fault { addr: Vpn(first).addr(), access: Access::Write }).unwrap();
        let is_resident = |page| space.inspect().resident_frame(Vpn(first + page)).is_some();
        assert!(is_resident(HUGE - 1));
        let lower = Vpn(first + 5).addr();
        assert_eq!(space.brk(lower), lower);
        assert!(is_resident(4) && !is_resident(5));
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

/// A huge page that the space did not know of when the call began: it is not split, and stays as it is.
#[test]
fn advice_for_a_part_says_nothing_of_a_huge_page_that_came_later() {
    with_frames(8 * HUGE, HugePolicy::Never, |vm, space| {
        map(&space, 0, HUGE);
        let memory = vm.memory();
        let folio = memory.alloc_zeroed_folio(crate::frame::FramePlacement::Local, Order::HUGE).unwrap();
        let first = folio.pfn();
        // The table above the page, without one below.
        fault(&space, 0, Access::Read);
        space.unmap(at(0), HUGE * PAGE).unwrap();
        map(&space, HUGE, HUGE);
        fault(&space, HUGE, Access::Read);
        map(&space, 0, HUGE);
        let reading = vm.read();
        let found = walk(space.inspect().page_table(), Vpn(BASE), Level::Pmd, &reading);
        assert_eq!((found.table.level(), found.entry()), (Level::Pmd, Entry::Absent));
        let bits = crate::table::LeafBits::new(Rights::READ | Rights::WRITE | Rights::USER).used(true);
        found.table.lock().unwrap().install(found.slot, folio.into_mapped(), bits);
        drop(reading);
        space.advise(at(3), 5 * PAGE, Advice::Free).unwrap();
        let (leaf, covers) = leaf(&space, 0).unwrap();
        let state = memory.meta(first).unwrap().state();
        assert_eq!((leaf.pfn, covers, leaf.dirty, state.is_lazyfree()), (first, HUGE, true, false));
        space.advise(at(0), HUGE * PAGE, Advice::Free).unwrap();
        assert!(memory.meta(first).unwrap().state().is_lazyfree(), "all of it was meant");
        space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap();
        // What was put there by hand was not counted.
        vm.count_many(Counter::NrAnonTransparentHugepages, 1);
    });
}

/// A handler reads the frame of the page, inside of the folio.
#[test]
fn a_handler_reads_a_word_of_each_page_of_a_huge_page() {
    with_space(|vm, space| {
        filled(&space);
        let running = space.activate(None);
        for page in [0, 1, 77, HUGE - 1, HUGE, 2 * HUGE - 1] {
            let word = space.walker().read_word_in_handler(at(page), &vm.read_in_handler());
            assert_eq!(word.map(|word| word as u8), Ok(byte_of(page)), "page {page}");
        }
        drop(running);
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
