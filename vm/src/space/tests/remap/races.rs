//! mremap beside faults of other threads.

use crate::machine::testing::TestMachine;
use crate::space::tests::world::base::{TABLE, leaf, page};
use crate::space::tests::world::remap::{FIXED, remap};
use crate::space::tests::world::{PAGE, boot_map};
use crate::space::{AddressSpace, Fault, FaultError, Layout, MapRequest, Path, Place, Vm};
use crate::units::Access;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A thread stores at both places while the pages go to and fro: a fault lands in no hole.
#[test]
fn faults_beside_moves_land_in_the_mapping() {
    for path in Path::ALL {
        let machine = TestMachine::with_cpus(3000, 2);
        let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
        let layout = Layout::linux::<crate::machine::testing::TestFormat>().overcommit();
        let space = AddressSpace::new(&vm, layout, path).unwrap();
        let len = 24;
        let places = [TABLE - 12, 3 * TABLE - 7];
        let request =
            MapRequest { place: Place::Fixed(page(places[0])), ..MapRequest::anonymous(len * PAGE) };
        machine.run_as(0);
        space.map(&request).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                machine.run_as(1);
                let mut nr = 0;
                while !done.load(Ordering::Acquire) {
                    nr = (nr + 7) % (2 * len);
                    let addr = page(places[(nr / len) as usize] + nr % len);
                    let result = space.fault(Fault { addr, access: Access::Write });
                    assert!(matches!(result, Ok(_) | Err(FaultError::NotMapped)), "{result:?}");
                }
            });
            let mut from = 0;
            for _ in 0..300 {
                let to = 1 - from;
                let moved =
                    remap(&space, (page(places[from]), len * PAGE), (page(places[to]), len * PAGE), FIXED);
                assert_eq!(moved, Ok(page(places[to])));
                for nr in 0..len {
                    let hole = page(places[from] + nr);
                    assert!(leaf(&space, hole).is_none(), "{path:?}: an entry in a hole");
                }
                from = to;
            }
            done.store(true, Ordering::Release);
        });
        drop(space);
        vm.trim();
        vm.memory().check().unwrap();
    }
}
