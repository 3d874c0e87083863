//! Spaces with private base pages.

use crate::frame::FrameCounts;
use crate::machine::testing::TestMachine;
use crate::machine::{Entry, Leaf};
use crate::space::tests::world::{PAGE, boot_map, space_of};
use crate::space::{AddressSpace, Counter, Fault, MapRequest, Place, Vm};
use crate::table::walk;
use crate::units::{Access, Level, Pfn, Rights, VirtAddr};
use crate::vma::VmaFlags;

pub(in crate::space::tests) type TestSpace<'v> = AddressSpace<'v, TestMachine>;
pub(in crate::space::tests) type TestVm<'m> = Vm<'m, TestMachine>;
pub(in crate::space::tests) const READ_WRITE: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);
/// Pages that one table of leaves covers.
pub(in crate::space::tests) const TABLE: u64 = Level::Pte.table_pages();
pub(in crate::space::tests) const BASE: VirtAddr = VirtAddr(PAGE * TABLE * 8);

/// Runs the test with an empty space; afterwards as many frames are allocated as before.
pub(in crate::space::tests) fn with_space(test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    let machine = TestMachine::new(1500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let before = counts(&vm).allocated;
    test(&vm, space_of(&vm));
    assert_eq!(counts(&vm).allocated, before, "frames allocated before and after");
}

pub(in crate::space::tests) fn counts(vm: &TestVm<'_>) -> FrameCounts {
    vm.trim();
    vm.memory().check().unwrap()
}

pub(in crate::space::tests) fn page(nr: u64) -> VirtAddr {
    VirtAddr(BASE.0 + nr * PAGE)
}

pub(in crate::space::tests) fn map(space: &TestSpace<'_>, nr: u64, pages: u64) {
    let request = MapRequest { place: Place::Fixed(page(nr)), ..MapRequest::anonymous(pages * PAGE) };
    space.map(&request).unwrap();
}

pub(in crate::space::tests) fn leaf(space: &TestSpace<'_>, addr: VirtAddr) -> Option<Leaf> {
    let reading = space.vm().read();
    match walk(space.inspect().page_table(), addr.vpn(), Level::Pte, &reading).entry() {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}

pub(in crate::space::tests) fn frame(space: &TestSpace<'_>, addr: VirtAddr) -> Pfn {
    leaf(space, addr).unwrap().pfn
}

/// Stores a byte, as a program does: the entry allows it.
pub(in crate::space::tests) fn store(space: &TestSpace<'_>, addr: VirtAddr, byte: u8) {
    space.fault(Fault { addr, access: Access::Write }).unwrap();
    let leaf = leaf(space, addr).unwrap();
    assert!(leaf.rights.contains(Rights::WRITE));
    let memory = space.vm().memory();
    let state = memory.meta(leaf.pfn).unwrap().state();
    assert!(
        state.is_exclusive() || !space.inspect().vma_at(addr).unwrap().is_anonymous(),
        "{state:?} is written"
    );
    space.vm().machine().write(leaf.pfn, 0, &[byte]);
}

pub(in crate::space::tests) fn load(space: &TestSpace<'_>, addr: VirtAddr) -> u8 {
    space.fault(Fault { addr, access: Access::Read }).unwrap();
    let mut byte = [0];
    space.vm().machine().read(frame(space, addr), 0, &mut byte);
    byte[0]
}

/// Copies and reuses counted since the totals were read.
pub(in crate::space::tests) fn copied_and_reused(vm: &TestVm<'_>) -> (u64, u64) {
    (vm.totals().get(Counter::CowCopied), vm.totals().get(Counter::PgReuse))
}
