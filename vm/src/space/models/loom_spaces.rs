//! A space that exits against a CPU that looks it up by its number, and runs in it where it is found.

use super::loom_fork::{NEW, OLD, X, store, write};
use super::loom_pairs::{Tests, assert_both};
use super::world::*;
use crate::machine::testing::with_leaked;
use crate::space::*;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::refill_zeros;
use crate::sync::testing::{run_model, thread};
use core::cell::Cell;
use std::boxed::Box;
use std::sync::atomic::AtomicUsize;

#[test]
fn loom_a_space_is_looked_up_while_it_exits() {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(2, move || {
        with_leaked(Tests::of_format(128, 2), |machine| {
            with_leaked(Vm::new(machine, boot_map(machine)).unwrap(), |vm| {
                with_leaked(Spaces::new(vm).unwrap(), |spaces| {
                    let before = Cell::new(0);
                    let space = AddressSpace::new(vm, layout(), Path::Speculative).unwrap();
                    for cpu in [1, 0] {
                        machine.run_as(cpu);
                        warm(&space);
                    }
                    before.set(vm.memory().check().unwrap().allocated);
                    let handle = spaces.insert(space).unwrap();
                    let id = handle.id();
                    map(&handle, START, 1);
                    write(machine, &handle, X, OLD);
                    for cpu in [1, 0] {
                        machine.run_as(cpu);
                        let running = handle.activate(None);
                        store(machine, &handle, X, OLD);
                        drop(running);
                        drop(spaces.hold(id));
                    }
                    refill_zeros();
                    let cpu1 = thread::spawn(move || {
                        machine.run_as(1);
                        let Some(handle) = spaces.hold(id) else { return false };
                        let running = handle.activate(None);
                        store(machine, &handle, X, NEW);
                        drop(running);
                        true
                    });
                    drop(handle);
                    let found = cpu1.join().unwrap();
                    seen[usize::from(found)].fetch_add(1, Relaxed);
                    assert!(spaces.hold(id).is_none(), "a space without handles lives");
                    vm.trim();
                    // What the space has was handed out before.
                    assert_eq!(vm.memory().check().unwrap().allocated, before.get() - OF_SPACE);
                });
            });
        });
    });
    assert_both(seen.each_ref().map(|count| count.load(Relaxed)));
}
