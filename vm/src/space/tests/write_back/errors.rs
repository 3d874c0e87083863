//! Writing back that fails: nothing is lost, and each handle is told once.

use crate::machine::testing::TestMachine;
use crate::object::PageAnswer;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::disk::{Event, FILE, open, with_disk};
use crate::space::tests::world::object::{SHARED, Space, leaf, load, map, store};
use crate::space::*;
use crate::units::Rights;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

#[test]
fn a_page_that_could_not_be_written_stays_dirty_and_each_cursor_reports_it_once() {
    with_disk(4, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 4), Sharing::Shared);
        let (mut first, mut second) = (file.error_cursor(), file.error_cursor());
        (0..3).for_each(|page| store(&space, SHARED + page, 1));
        disk.answer(1, &[PageAnswer::Error]);
        let hold = |_| Some(&space);
        assert_eq!(file.sync(&mut first, hold), Err(ObjectError::Io));
        assert_eq!([0, 1, 2].map(|page| disk.byte(page)), [1, 0, 1]);
        assert!(!leaf(&space, SHARED + 1).unwrap().1.contains(Rights::WRITE));
        // It is tried again; the error is told to the other cursor still.
        let again = file.sync(&mut first, hold).unwrap();
        assert_eq!((again.pages, again.failed, disk.byte(1)), (1, 0, 1));
        assert_eq!(file.sync(&mut second, hold), Err(ObjectError::Io));
        assert!(file.sync(&mut second, hold).is_ok());
        assert!(file.sync(&mut file.error_cursor(), hold).is_ok());
        // An error that nothing has reported is told to cursors that are made after it.
        store(&space, SHARED, 2);
        disk.answer(0, &[PageAnswer::Error]);
        assert_eq!(file.write_back(0, 1, hold).unwrap().failed, 1);
        let mut third = file.error_cursor();
        assert_eq!(file.sync(&mut third, hold), Err(ObjectError::Io));
        assert_eq!(disk.byte(0), 2);
    });
}

#[test]
fn a_disk_that_is_late_is_waited_for_and_so_is_what_another_call_writes() {
    with_disk(4, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 4), Sharing::Shared);
        (0..3).for_each(|page| store(&space, SHARED + page, 1));
        disk.answer(1, &[PageAnswer::NotReady; 3]);
        let (hold, is_done) = (|_| Some(&space), AtomicBool::new(false));
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                vm.machine().run_as(1);
                let written = file.write_back(0, u64::MAX, hold);
                is_done.store(true, SeqCst);
                written
            });
            while disk.byte(0) == 0 {
                thread::yield_now();
            }
            // The other call has begun all three: this one finds none, and returns after it.
            let waiter = scope.spawn(|| {
                vm.machine().run_as(0);
                let written = file.write_back(0, u64::MAX, hold);
                assert_eq!(disk.byte(1), 1, "what another call has begun is written when this returns");
                written
            });
            while !(writer.is_finished() && waiter.is_finished()) {
                vm.page_ready(FILE, 1);
                thread::yield_now();
            }
            assert_eq!(writer.join().unwrap().unwrap().pages, 3);
            assert_eq!(waiter.join().unwrap().unwrap().pages, 0);
        });
        assert_eq!([0, 1, 2].map(|page| disk.byte(page)), [1; 3]);
    });
}

/// A sync that only waited for the other writer would return before its own bytes are on the disk.
#[test]
fn what_was_stored_while_another_call_writes_its_page_is_written_by_this_one() {
    with_disk(4, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 4), Sharing::Shared);
        store(&space, SHARED + 1, 1);
        disk.answer(1, &[PageAnswer::NotReady; 3]);
        let hold = |_| Some(&space);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                vm.machine().run_as(1);
                file.write_back(0, u64::MAX, hold).unwrap()
            });
            while disk.state.lock().unwrap().nr_answers(1) == 3 {
                thread::yield_now();
            }
            // The store asks the pager for the right, which it gives.
            vm.machine().run_as(0);
            disk.answer(1, &[]);
            store(&space, SHARED + 1, 2);
            disk.answer(1, &[PageAnswer::NotReady; 3]);
            let late = scope.spawn(|| {
                vm.machine().run_as(0);
                file.write_back(0, u64::MAX, hold).unwrap()
            });
            while !(writer.is_finished() && late.is_finished()) {
                vm.page_ready(FILE, 1);
                thread::yield_now();
            }
            assert_eq!((writer.join().unwrap().pages, late.join().unwrap().pages), (1, 1));
        });
        assert_eq!(disk.byte(1), 2);
    });
}

/// Else the disk would get bytes of pages that are gone, after the call.
#[test]
fn truncation_and_holes_wait_for_a_disk_that_is_late() {
    type Call = fn(&ObjectHandle<'_, TestMachine>, &Space<'_>);
    let shorten: Call = |file, space| {
        let _reach = file.set_len_bytes(PAGE, |_| Some(space)).unwrap();
    };
    let punch: Call = |file, space| {
        let _reach = file.punch_hole(0, 3 * PAGE, |_| Some(space)).unwrap();
    };
    for call in [shorten, punch] {
        with_disk(4, |vm, space, disk| {
            let file = open(vm);
            map(&space, &file, (SHARED, 4), Sharing::Shared);
            (0..3).for_each(|page| store(&space, SHARED + page, 1));
            disk.answer(1, &[PageAnswer::NotReady; 3]);
            disk.events();
            thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    vm.machine().run_as(1);
                    file.write_back(PAGE, PAGE, |_| Some(&space)).unwrap()
                });
                while disk.state.lock().unwrap().nr_answers(1) == 3 {
                    thread::yield_now();
                }
                let caller = scope.spawn(|| {
                    vm.machine().run_as(0);
                    call(&file, &space);
                    assert_eq!(disk.events(), [Event::Write(1); 4], "the last of them is the answer");
                });
                while !(writer.is_finished() && caller.is_finished()) {
                    vm.page_ready(FILE, 1);
                    thread::yield_now();
                }
                assert_eq!(writer.join().unwrap().pages, 1);
                caller.join().unwrap();
            });
        });
    }
}

#[test]
fn a_disk_that_never_answers_ends_the_call_and_the_page_is_dirty() {
    with_disk(4, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 4), Sharing::Shared);
        store(&space, SHARED, 1);
        let never = [PageAnswer::NotReady; 20_000];
        [0, 1].into_iter().for_each(|page| disk.answer(page, &never));
        let hold = |_| Some(&space);
        assert_eq!(file.write_back(0, u64::MAX, hold), Err(ObjectError::Stalled));
        // Neither is a page read, nor one that is there allowed to be stored to.
        assert_eq!(file.read_at(PAGE, &mut [0]), Err(ObjectError::Stalled));
        assert_eq!(load(&space, SHARED + 2), 0);
        disk.answer(2, &never);
        assert_eq!(file.write_at(2 * PAGE, &[1]), Err(ObjectError::Stalled));
        disk.answer(0, &[]);
        assert_eq!(file.write_back(0, u64::MAX, hold).unwrap().pages, 1);
        assert_eq!(disk.byte(0), 1);
    });
}

/// Else the next sync would wait for a page that no call writes.
#[test]
fn a_pager_that_panics_leaves_its_pages_dirty() {
    with_disk(4, |vm, space, disk| {
        let file = open(vm);
        map(&space, &file, (SHARED, 4), Sharing::Shared);
        (0..3).for_each(|page| store(&space, SHARED + page, 1));
        disk.panic_at(1);
        let write = || file.write_back(0, u64::MAX, |_| Some(&space));
        assert!(catch_unwind(AssertUnwindSafe(write)).is_err());
        let find = |_| -> Option<&Space<'_>> { panic!("a finder that panics") };
        assert!(catch_unwind(AssertUnwindSafe(|| file.write_back(0, u64::MAX, find))).is_err());
        let written = file.write_back(0, u64::MAX, |_| Some(&space)).unwrap();
        assert_eq!((written.pages, written.failed), (3, 0));
        assert_eq!([0, 1, 2].map(|page| disk.byte(page)), [1; 3]);
    });
}
