//! Private mappings of objects, and pages that a pager fills: the real code on the smallest trees.

use super::world::*;
use crate::frame::PageFill;
use crate::machine::testing::with_leaked;
use crate::object::{PageAnswer, Pager, PagerKey};
use crate::space::*;
use crate::sync::refill_zeros;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::units::{Access, Vpn};
use loom::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::boxed::Box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maps a page of an object private, and loads from it.
fn map_private(space: &TestSpace, object: &ObjectHandle<'static, Tests>, page: Vpn) {
    let request = MapRequest { place: Place::Fixed(page.addr()), ..MapRequest::anonymous(PAGE) };
    space.map(&request.backed_by(object.at_page(0))).unwrap();
    space.fault(Fault { addr: page.addr(), access: Access::Read }).unwrap();
}

/// The first copy of a mapping, which fork would pass over, and a store to memory that it sweeps later.
#[test]
fn loom_a_child_has_no_store_without_the_first_copy_before_it() {
    assert_both(explore_fork(|machine, space| {
        let object = ObjectHandle::new(space.vm, PAGE).unwrap();
        map_private(space, &object, X);
        drop(object);
        refill_zeros();
        let program = |machine, space| {
            store_byte(machine, space, X, NEW);
            store_byte(machine, space, Y, NEW);
        };
        fork_beside(machine, space, program, |[x, y]| y == OLD || x == NEW)
    }));
}

/// A page that is ready once the flag is set.
struct Ready(AtomicBool);

const KEY: PagerKey = PagerKey(1);

impl Pager<Tests> for Ready {
    fn try_page(&self, _object: PagerKey, _page: u64, into: &mut PageFill<'_, Tests>) -> PageAnswer {
        if !self.0.load(SeqCst) {
            return PageAnswer::NotReady;
        }
        into.write(0, &[OLD]);
        PageAnswer::Ready
    }
}

/// No wake-up is lost: loom reports a thread that sleeps for good. Returns how often the fault found the page
/// ready at once, and how often it waited.
fn explore_waits(fault: fn(&'static TestSpace)) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(2, move || {
        let ready: &'static Ready = Box::leak(Box::new(Ready(AtomicBool::new(false))));
        with_leaked(Tests::of_format(128, 2), |machine| {
            let options = VmOptions { pager: Some(ready), ..VmOptions::default() };
            let vm = Vm::start(boot_map(machine).claim(machine).unwrap(), options).unwrap();
            with_leaked(vm, |vm: &'static Vm<'static, Tests>| {
                with_leaked(AddressSpace::new(vm, layout(), Path::Speculative).unwrap(), |space| {
                    for cpu in [1, 0] {
                        machine.run_as(cpu);
                        warm(space);
                    }
                    let object = ObjectHandle::paged(vm, KEY).unwrap();
                    let request = MapRequest { place: Place::Fixed(X.addr()), ..MapRequest::anonymous(PAGE) };
                    space.map(&request.backed_by(object.at_page(0))).unwrap();
                    refill_zeros();
                    let waiter = thread::spawn(move || {
                        machine.run_as(1);
                        fault(space);
                    });
                    ready.0.store(true, SeqCst);
                    vm.page_ready(KEY, 0);
                    waiter.join().unwrap();
                    let has_waited = vm.totals().get(Counter::SpfUnprepared) > 0;
                    seen[usize::from(has_waited)].fetch_add(1, Relaxed);
                    let mut byte = [0];
                    assert_eq!(space.copy_from(X.addr(), &mut byte), Ok(1));
                    assert_eq!(byte, [OLD]);
                    drop(object);
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

#[test]
fn loom_a_fault_that_waits_for_a_page_is_woken() {
    assert_both(explore_waits(|space| {
        space.fault(Fault { addr: X.addr(), access: Access::Write }).unwrap();
    }));
}
