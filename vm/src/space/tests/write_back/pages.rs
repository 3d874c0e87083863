//! A page is dirty from its first store on, until it is written back.

use crate::machine::testing::TestMachine;
use crate::object::PageAnswer;
use crate::space::tests::world::disk::{Disk, Event, File, open, with_disk};
use crate::space::tests::world::object::{
    Limit, PRIVATE, SHARED, Space, at, fault, leaf, load, map, request, store, vm_with,
};
use crate::space::tests::world::{PAGE, mishaps::each_allocation, space_of};
use crate::space::*;
use crate::units::{Access, Rights};
use crate::vma::VmaFlags;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use core::time::Duration;
use std::thread;
use std::vec::Vec;

fn may_store(space: &Space<'_>, page: u64) -> bool {
    leaf(space, page).is_some_and(|(_, rights)| rights.contains(Rights::WRITE))
}

/// Writes the whole file back.
fn write_back<'v>(file: &File<'v>, spaces: &[&Space<'v>]) -> WrittenBack {
    let hold = |id| spaces.iter().copied().find(|space| space.id() == id);
    file.write_back(0, u64::MAX, hold).unwrap()
}

fn written(pages: u64) -> WrittenBack {
    WrittenBack { pages, ..WrittenBack::default() }
}

#[test]
fn the_first_store_makes_a_page_dirty_and_the_next_one_after_it_was_written() {
    with_disk(8, |vm, space, disk| {
        let file = open(vm);
        disk.put(1, 5);
        map(&space, &file, (SHARED, 8), Sharing::Shared);
        assert_eq!(load(&space, SHARED + 1), 5);
        assert!(!may_store(&space, SHARED + 1), "a page that is clean");
        store(&space, SHARED + 1, 6);
        store(&space, SHARED + 3, 7);
        assert_eq!(disk.events(), [Event::Read(1), Event::Allow(1), Event::Read(3), Event::Allow(3)]);
        store(&space, SHARED + 1, 8);
        load(&space, SHARED + 3);
        assert_eq!(disk.events(), []);
        assert_eq!(write_back(&file, &[&space]), written(2));
        assert_eq!((disk.byte(1), disk.byte(3)), (8, 7));
        assert!(!may_store(&space, SHARED + 1) && !may_store(&space, SHARED + 3));
        assert_eq!(write_back(&file, &[&space]), written(0));
        assert_eq!(disk.events(), [Event::Write(1), Event::Write(3)]);
        store(&space, SHARED + 1, 9);
        assert_eq!(disk.events(), [Event::Allow(1)]);
        // A part of the file is written, and no more.
        store(&space, SHARED + 6, 1);
        assert_eq!(file.write_back(6 * PAGE, 1, |_| Some(&space)), Ok(written(1)));
        assert_eq!((disk.byte(1), disk.byte(6)), (8, 1));
        assert_eq!(write_back(&file, &[&space]), written(1));
    });
}

#[test]
fn every_entry_of_a_page_is_protected_before_it_is_written() {
    with_disk(4, |vm, space, disk| {
        let file = open(vm);
        for base in [SHARED, SHARED + 10] {
            map(&space, &file, (base, 4), Sharing::Shared);
        }
        map(&space, &file, (PRIVATE, 4), Sharing::Private);
        let child = space.fork().unwrap();
        for (space, page) in [(&space, SHARED + 2), (&space, SHARED + 12), (&child, SHARED + 2)] {
            store(space, page, 3);
        }
        store(&child, PRIVATE + 2, 99);
        assert_eq!(write_back(&file, &[&space, &child]), written(1));
        for (space, page) in [(&space, SHARED + 2), (&space, SHARED + 12), (&child, SHARED + 2)] {
            assert!(!may_store(space, page), "page {page}");
        }
        assert!(may_store(&child, PRIVATE + 2), "a private copy is none of the file's");
        assert_eq!(disk.byte(2), 3);
        // A store through one mapping makes the page dirty for all: the next fault of another asks nothing.
        store(&child, SHARED + 2, 4);
        disk.events();
        store(&space, SHARED + 12, 5);
        assert_eq!(disk.events(), []);
        // Pages whose spaces are not found stay dirty.
        let reach = write_back(&file, &[&child]);
        assert_eq!((reach.pages, reach.missing, disk.byte(2)), (1, 3, 5));
        assert_eq!(write_back(&file, &[&space, &child]), written(1));
    });
}

#[test]
fn what_an_unmapped_or_protected_mapping_has_stored_is_written_and_what_was_truncated_is_not() {
    with_disk(8, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 8), Sharing::Shared);
        (0..8).for_each(|page| store(&space, SHARED + page, 1 + page as u8));
        space.protect(at(SHARED), PAGE, VmaFlags::READ).unwrap();
        space.advise(at(SHARED + 1), PAGE, Advice::DontNeed).unwrap();
        space.unmap(at(SHARED + 2), 6 * PAGE).unwrap();
        let _reach = file.set_len_bytes(6 * PAGE + 100, |_| Some(&space)).unwrap();
        assert_eq!(write_back(&file, &[&space]), written(7));
        assert_eq!([0, 1, 2, 5, 6, 7].map(|page| disk.byte(page)), [1, 2, 3, 6, 7, 0]);
        assert_eq!(disk.bytes(6)[..101], [&[7; 1][..], &[0; 100]].concat());
        // The rights come back without the right to store, as the page is clean.
        space.protect(at(SHARED), PAGE, VmaFlags::READ | VmaFlags::WRITE).unwrap();
        load(&space, SHARED);
        assert!(!may_store(&space, SHARED));
    });
}

#[test]
fn a_pager_that_refuses_is_a_bus_error_and_one_that_is_late_is_waited_for() {
    with_disk(8, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 8), Sharing::Shared);
        load(&space, SHARED);
        for page in [0, 1] {
            let before =
                if page == 0 { &[PageAnswer::Error][..] } else { &[PageAnswer::Ready, PageAnswer::Error] };
            disk.answer(page, before);
            assert_eq!(fault(&space, SHARED + page, Access::Write), Err(FaultError::Beyond));
            assert!(!may_store(&space, SHARED + page));
            assert_eq!(load(&space, SHARED + page), 0);
            store(&space, SHARED + page, 1);
        }
        disk.answer(2, &[PageAnswer::Ready, PageAnswer::NotReady, PageAnswer::NotReady]);
        thread::scope(|scope| {
            let storing = scope.spawn(|| {
                vm.machine().run_as(1);
                store(&space, SHARED + 2, 3);
            });
            while !storing.is_finished() {
                vm.page_ready(crate::space::tests::world::disk::FILE, 2);
                thread::yield_now();
            }
        });
        assert_eq!(write_back(&file, &[&space]), written(3));
        assert_eq!([0, 1, 2].map(|page| disk.byte(page)), [1, 1, 3]);
    });
}

#[test]
fn stores_of_others_than_the_program_make_a_page_dirty_again() {
    with_disk(8, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 8), Sharing::Shared);
        let limit = Limit::new(10);
        let pins = space.pin_pages(at(SHARED), Access::Write, &limit, [None, None]).unwrap();
        assert_eq!(write_back(&file, &[&space]), written(2), "a pin to store makes pages dirty");
        vm.machine().write(pins.frames().next().unwrap().pfn(), 0, &[4]);
        assert_eq!(write_back(&file, &[&space]), written(0));
        pins.note_stored();
        assert_eq!(write_back(&file, &[&space]), written(2));
        assert_eq!(disk.byte(0), 4);
        drop(pins);
        assert_eq!(space.copy_to(at(SHARED + 5), &[6]), Ok(1));
        assert_eq!((write_back(&file, &[&space]), disk.byte(5)), (written(1), 6));
    });
}

#[test]
fn msync_writes_what_shared_mappings_of_its_range_show() {
    with_disk(8, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 4), Sharing::Shared);
        map(&space, &file, (PRIVATE, 4), Sharing::Private);
        (0..4).for_each(|page| store(&space, SHARED + page, 1));
        store(&space, PRIVATE, 2);
        let sync = |page, pages, mode| space.sync(at(page), pages * PAGE, mode, |_| Some(&space));
        assert_eq!(sync(SHARED, 4, SyncMode::Async), Ok(()));
        assert_eq!(sync(PRIVATE, 4, SyncMode::Sync), Ok(()));
        assert_eq!([0, 1, 2, 3].map(|page| disk.byte(page)), [0; 4]);
        assert_eq!(sync(SHARED + 1, 2, SyncMode::Sync), Ok(()));
        assert_eq!([0, 1, 2, 3].map(|page| disk.byte(page)), [0, 1, 1, 0]);
        store(&space, SHARED + 1, 3);
        assert_eq!(sync(SHARED + 1, 1, SyncMode::Invalidate), Ok(()));
        assert_eq!(disk.byte(1), 1);
        assert_eq!(sync(SHARED + 1, 1, SyncMode::SyncInvalidate), Ok(()));
        assert_eq!(disk.byte(1), 3);
        // A hole is told at the end.
        assert_eq!(sync(SHARED + 3, 2, SyncMode::Sync), Err(Error::NoMemory));
        assert_eq!([0, 3].map(|page| disk.byte(page)), [0, 1]);
        let unaligned = crate::units::VirtAddr(at(SHARED).0 + 1);
        assert_eq!(space.sync(unaligned, PAGE, SyncMode::Sync, |_| Some(&space)), Err(Error::Invalid));
        assert_eq!(space.sync(at(SHARED), u64::MAX, SyncMode::Sync, |_| Some(&space)), Err(Error::NoMemory));
        disk.answer(0, &[PageAnswer::Error]);
        assert_eq!(sync(SHARED, 1, SyncMode::Sync), Err(Error::Io));
        assert_eq!(sync(SHARED, 1, SyncMode::Sync), Ok(()));
        assert_eq!(disk.byte(0), 1);
    });
}

/// More dirty pages than a batch has, far from each other, in an index of several heights.
#[test]
fn all_dirty_pages_are_found_wherever_they_lie() {
    with_disk(1 << 30, |vm, space, disk| {
        let file = open(vm);
        let far: Vec<u64> = [0, 511, 512, 1 << 18, (1 << 27) + 5, (1 << 30) - 1].to_vec();
        for (nth, &page) in far.iter().enumerate() {
            let request = request(400 + nth as u64, 1, Sharing::Shared);
            space.map(&request.backed_by(file.at_page(page))).unwrap();
            store(&space, 400 + nth as u64, 7);
        }
        map(&space, &file, (0, 100), Sharing::Shared);
        (1..100).for_each(|page| store(&space, page, 1));
        assert_eq!(write_back(&file, &[&space]), written(99 + 6));
        assert!(far.iter().all(|&page| disk.byte(page) == 7));
        assert!((1..100).all(|page| disk.byte(page) == 1));
        assert_eq!(write_back(&file, &[&space]), written(0));
        store(&space, 404, 8);
        assert_eq!(file.write_back(0, (1 << 27) * PAGE, |_| Some(&space)), Ok(written(0)));
        assert_eq!(write_back(&file, &[&space]), written(1));
    });
}

/// Whichever allocation is refused: memory lacks or all is done, and what was stored is written in the end.
#[test]
fn a_lack_of_memory_loses_no_store() {
    let allocations = each_allocation(|nth| {
        let has_struck = core::cell::Cell::new(false);
        with_disk(1000, |vm, space, disk| {
            let file = open(vm);
            vm.memory().plan_mishaps(nth, 6);
            let mapped = space.map(&request(0, 1000, Sharing::Shared).backed_by(file.at_page(0)));
            let stored = mapped.is_ok() && fault(&space, 600, Access::Write).is_ok();
            if stored {
                vm.machine().write(leaf(&space, 600).unwrap().0, 0, &[9]);
            }
            let written = file.write_at(3 * PAGE, &[5]);
            let result = file.write_back(0, u64::MAX, |_| Some(&space)).unwrap();
            has_struck.set(has_struck.get() | !vm.memory().is_mishap_planned());
            vm.memory().plan_mishap(0);
            assert_eq!(result.failed, 0);
            assert!(matches!(written, Ok(1) | Err(ObjectError::NoMemory)), "{written:?}");
            assert_eq!(disk.byte(600), if stored { 9 } else { 0 });
            assert_eq!(disk.byte(3), if written.is_ok() { 5 } else { 0 });
            vm.memory().check().unwrap();
        });
        has_struck.get()
    });
    assert!(allocations >= 6, "{allocations} allocations");
}

/// A third CPU has unmapped the page, and waits for the CPU that stores through its TLB.
#[test]
fn a_store_through_an_entry_that_is_being_unmapped_is_written() {
    let disk = Disk { len_bytes: 2 * PAGE, ..Disk::default() };
    let machine = TestMachine::with_cpus(1500, 3);
    machine.run_as(0);
    let vm = vm_with(&machine, VmOptions { pager: Some(&disk), ..VmOptions::default() });
    let space = space_of(&vm);
    let file = open(&vm);
    map(&space, &file, (SHARED, 2), Sharing::Shared);
    store(&space, SHARED, 1);
    let is_loaded = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            machine.run_as(1);
            let running = space.activate(None);
            let leaf = machine.translate(at(SHARED).vpn(), Access::Write).unwrap();
            is_loaded.store(true, SeqCst);
            while !machine.is_interrupted(1) {
                thread::yield_now();
            }
            // Long enough for the other CPU to write the page back, if it does not wait.
            thread::sleep(Duration::from_millis(30));
            machine.write(leaf.pfn, 0, &[2]);
            drop(running);
        });
        while !is_loaded.load(SeqCst) {
            thread::yield_now();
        }
        scope.spawn(|| {
            machine.run_as(2);
            space.unmap(at(SHARED), 2 * PAGE).unwrap();
        });
        while !machine.is_interrupted(1) {
            thread::yield_now();
        }
        assert_eq!(write_back(&file, &[&space]), written(1));
    });
    let _rest = write_back(&file, &[&space]);
    assert_eq!(disk.byte(0), 2);
}
