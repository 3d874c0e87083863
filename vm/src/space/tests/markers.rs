//! Markers that no call makes yet: what faults, forks and munmap do at them.

use super::world::{PAGE, boot_map, space_of, store};
use crate::machine::Entry;
use crate::machine::testing::TestMachine;
use crate::space::{AddressSpace, Fault, FaultError, MapRequest, Vm};
use crate::table::{SlotMarker, walk};
use crate::units::{Access, Level, VirtAddr};

type TestSpace<'v> = AddressSpace<'v, TestMachine>;

fn entry(space: &TestSpace<'_>, page: VirtAddr) -> Entry {
    let reading = space.vm().read();
    walk(space.inspect().page_table(), page.vpn(), Level::Pte, &reading).entry()
}

/// As Linux's guard regions: SIGSEGV, in a child too, until the mapping goes.
#[test]
fn a_guard_is_refused_inherited_and_goes_with_its_mapping() {
    let machine = TestMachine::new(1000);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let base = space.map(&MapRequest::anonymous(2 * PAGE)).unwrap();
    let page = VirtAddr(base.0 + PAGE);
    store(&space, base);
    let reading = vm.read();
    let found = walk(space.inspect().page_table(), page.vpn(), Level::Pte, &reading);
    assert!(found.table.lock().unwrap().mark(found.slot, SlotMarker::Guard));
    drop(reading);
    let child = space.fork().unwrap();
    for space in [&space, &child] {
        for access in [Access::Read, Access::Write] {
            assert_eq!(space.fault(Fault { addr: page, access }), Err(FaultError::NotMapped));
        }
        assert_eq!(entry(space, page), SlotMarker::Guard.entry());
        assert_eq!(space.inspect().resident_frame(page.vpn()), None);
        space.unmap(base, 2 * PAGE).unwrap();
        assert_eq!(entry(space, page), Entry::Absent);
    }
    space.inspect().check_index().unwrap();
    vm.memory().check().unwrap();
}
