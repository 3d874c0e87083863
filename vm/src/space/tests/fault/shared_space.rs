//! Stores in a space that several CPUs run: frames that are zeroed under the lock of their table.

use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::tests::world::base::frame;
use crate::space::tests::world::{PAGE, boot_map, store};
use crate::space::*;
use crate::units::VirtAddr;

const PAGES: u64 = 40;

/// Frames come back dirty, and go to stores of both CPUs, on each path; also where the lock was waited for.
#[test]
fn a_page_that_is_zeroed_under_the_lock_is_zero() {
    for (path, is_waited) in Path::ALL.into_iter().flat_map(|path| [(path, false), (path, true)]) {
        let machine = TestMachine::with_cpus(600, 2);
        let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
        let space = AddressSpace::new(&vm, Layout::linux::<TestFormat>(), path).unwrap();
        machine.run_as(1);
        let second = space.activate(None);
        machine.run_as(0);
        drop(space.activate(None));
        machine.run_as(1);
        drop(second);
        assert!(space.way.is_shared(), "two CPUs have run the space");
        for round in 0..3 {
            machine.run_as(0);
            let base = space.map(&MapRequest::anonymous(PAGES * PAGE)).unwrap();
            for nr in 0..PAGES {
                machine.run_as((nr % 2) as u32);
                let at = VirtAddr(base.0 + nr * PAGE);
                if is_waited && nr > PAGES / 2 {
                    vm.waited_tables.note(at.vpn());
                }
                store(&space, at);
                let mut page = [1; PAGE as usize];
                machine.read(frame(&space, at), 0, &mut page);
                assert_eq!(page, [0; PAGE as usize], "round {round}, page {nr}, {path:?}");
                machine.write(frame(&space, at), 0, &[0xa5; PAGE as usize]);
            }
            machine.run_as(0);
            space.unmap(base, PAGES * PAGE).unwrap();
        }
    }
}
