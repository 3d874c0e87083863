//! A space that exits against a CPU that looks it up by its number, and runs in it where it is found.

use super::world::*;
use crate::machine::testing::with_leaked;
use crate::space::*;
use crate::sync::refill_zeros;
use crate::sync::testing::thread;

#[test]
fn loom_a_space_is_looked_up_while_it_exits() {
    assert_both(explore_system(Size::of(128), VmOptions::default, |machine, vm| {
        with_leaked(Spaces::new(vm).unwrap(), |spaces| {
            let space = new_space(vm);
            let before = warm_all(machine, &space, 2);
            let handle = spaces.insert(space).unwrap();
            let id = handle.id();
            map(&handle, START, 1);
            write(machine, &handle, X, OLD);
            for cpu in [1, 0] {
                machine.run_as(cpu);
                let running = handle.activate(None);
                store_byte(machine, &handle, X, OLD);
                drop(running);
                drop(spaces.hold(id));
            }
            refill_zeros();
            let cpu1 = thread::spawn(move || {
                machine.run_as(1);
                let Some(handle) = spaces.hold(id) else { return false };
                let running = handle.activate(None);
                store_byte(machine, &handle, X, NEW);
                drop(running);
                true
            });
            drop(handle);
            let found = cpu1.join().unwrap();
            assert!(spaces.hold(id).is_none(), "a space without handles lives");
            vm.trim();
            assert_given_back(vm, before);
            found
        })
    }));
}
