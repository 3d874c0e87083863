//! Writing a file back, against stores to it.

use super::world::*;
use crate::frame::PageFill;
use crate::machine::testing::with_leaked;
use crate::object::{PageAnswer, PageContents, Pager, PagerKey};
use crate::space::*;
use crate::sync::refill_zeros;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::units::Access;
use std::boxed::Box;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

const FILE: PagerKey = PagerKey(1);

/// A file of a page, with its first byte.
#[derive(Default)]
struct Disk(AtomicU8);

impl Pager<Tests> for Disk {
    fn try_page(&self, _: PagerKey, _: u64, into: &mut PageFill<'_, Tests>) -> PageAnswer {
        into.write(0, &[self.0.load(Relaxed)]);
        PageAnswer::Ready
    }
    fn size_bytes(&self, _: PagerKey) -> u64 {
        PAGE
    }
    fn is_written_back(&self, _: PagerKey) -> bool {
        true
    }
    fn write_back(&self, _: PagerKey, _: u64, from: &PageContents<'_, '_, Tests>) -> PageAnswer {
        let mut byte = [0];
        from.read(0, &mut byte);
        self.0.store(byte[0], Relaxed);
        PageAnswer::Ready
    }
}

/// CPU 1 runs the program while CPU 0 writes the file back. What the program has stored is on the disk then,
/// or its page is dirty. Returns how often the first writing missed it, and how often it had it.
fn explore_write_back(
    before: fn(&'static Tests, &'static TestSpace),
    program: fn(&'static Tests, &'static TestSpace),
) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(2, move || {
        let disk: &'static Disk = Box::leak(Box::default());
        disk.0.store(OLD, Relaxed);
        with_leaked(Tests::of_format(128, 2), |machine| {
            let options = VmOptions { pager: Some(disk), ..VmOptions::default() };
            let vm = Vm::start(boot_map(machine).claim(machine).unwrap(), options).unwrap();
            with_leaked(vm, |vm: &'static Vm<'static, Tests>| {
                with_leaked(new_space(vm), |space| {
                    warm_all(machine, space, 2);
                    with_leaked(ObjectHandle::paged(vm, FILE).unwrap(), |file| {
                        let (place, sharing) = (Place::Fixed(X.addr()), Sharing::Shared);
                        let request = MapRequest { place, sharing, ..MapRequest::anonymous(PAGE) };
                        space.map(&request.backed_by(file.at_page(0))).unwrap();
                        before(machine, space);
                        let write_back = move || file.write_back(0, PAGE, |_| Some(space)).unwrap();
                        assert_eq!(file.len_bytes(), PAGE, "a word of the model from now on");
                        refill_zeros();
                        let cpu1 = thread::spawn(move || {
                            machine.run_as(1);
                            let running = space.activate(None);
                            program(machine, space);
                            drop(running);
                        });
                        let _written = write_back();
                        cpu1.join().unwrap();
                        machine.run_as(0);
                        let is_written = disk.0.load(Relaxed) == NEW;
                        let _written = write_back();
                        assert_eq!(disk.0.load(Relaxed), NEW, "a store was lost");
                        seen[usize::from(is_written)].fetch_add(1, Relaxed);
                        space.unmap(X.addr(), PAGE).unwrap();
                    });
                });
                vm.trim();
                vm.memory().check().unwrap();
            });
        });
    });
    let seen = seen.each_ref().map(|count| count.load(Relaxed));
    std::eprintln!("{seen:?}");
    seen
}

fn fault(space: &TestSpace, access: Access) {
    space.fault(Fault { addr: X.addr(), access }).unwrap();
}

/// The page becomes clean between two stores, or while one of them asks for it.
#[test]
fn loom_writing_back_against_stores_one_after_the_other() {
    assert_both(explore_write_back(
        |_, space| fault(space, Access::Write),
        |machine, space| {
            store_byte(machine, space, X, OLD);
            store_byte(machine, space, X, NEW);
        },
    ));
}

/// The page is dirty: the store needs no fault, if its entry is there still.
#[test]
fn loom_writing_back_against_a_store_to_a_dirty_page() {
    assert_both(explore_write_back(
        |_, space| fault(space, Access::Write),
        |machine, space| store_byte(machine, space, X, NEW),
    ));
}

/// The page is dirty, and has no entry: the fault finds it dirty, and it may be clean by then.
#[test]
fn loom_writing_back_against_a_fault_of_a_dirty_page() {
    assert_both(explore_write_back(
        |_, space| {
            fault(space, Access::Write);
            space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
        },
        |machine, space| store_byte(machine, space, X, NEW),
    ));
}

/// The entry is gone before the store through it has left the TLB.
#[test]
fn loom_writing_back_against_a_store_and_the_end_of_its_entry() {
    assert_both(explore_write_back(
        |_, space| fault(space, Access::Write),
        |machine, space| {
            store_byte(machine, space, X, NEW);
            space.advise(X.addr(), PAGE, Advice::DontNeed).unwrap();
        },
    ));
}
