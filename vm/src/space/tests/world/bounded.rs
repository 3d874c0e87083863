//! Spaces that may have few mappings.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::machine::{Entry, Leaf};
use crate::space::edit::VmaEdit;
use crate::space::{AddressSpace, Fault, Layout, MapRequest, Path, Place, Vm};
use crate::table::walk;
use crate::units::{Access, Level, NodeId, PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags, VmaState};
use std::vec::Vec;

pub(in crate::space::tests) type TestSpace<'a> = AddressSpace<'a, TestMachine>;
pub(in crate::space::tests) const PAGE: u64 = PAGE_SIZE as u64;
/// Address of the first mapping of each test.
pub(in crate::space::tests) const BASE: VirtAddr = VirtAddr(PAGE << 10);

/// Runs the test with an empty space that may have `max_mappings`. Afterwards as many frames are handed out
/// as before.
pub(in crate::space::tests) fn with_space(max_mappings: usize, test: impl FnOnce(&TestSpace<'_>)) {
    with_layout(Layout { max_mappings, ..Layout::linux::<TestFormat>() }, test);
}

/// The same with another layout.
pub(in crate::space::tests) fn with_layout(layout: Layout, test: impl FnOnce(&TestSpace<'_>)) {
    let machine = TestMachine::new(1000);
    let frames = machine.frames();
    let region = Region {
        start: frames.start.addr(),
        len_bytes: frames.len() * PAGE,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    let vm = Vm::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    let in_use = || {
        vm.trim();
        vm.memory().check().unwrap().allocated
    };
    let before = in_use();
    test(&AddressSpace::new(&vm, layout, Path::Speculative).unwrap());
    assert_eq!(in_use(), before, "frames handed out before and after");
}

pub(in crate::space::tests) fn page(nr: u64) -> VirtAddr {
    VirtAddr(BASE.0 + nr * PAGE)
}

/// Maps `pages` private pages at page `nr`.
pub(in crate::space::tests) fn map(space: &TestSpace<'_>, nr: u64, pages: u64) {
    let request = MapRequest { place: Place::Fixed(page(nr)), ..MapRequest::anonymous(pages * PAGE) };
    space.map(&request).unwrap();
}

pub(in crate::space::tests) fn write(space: &TestSpace<'_>, addr: VirtAddr) {
    space.fault(Fault { addr, access: Access::Write }).unwrap();
}

pub(in crate::space::tests) fn mappings(space: &TestSpace<'_>) -> Vec<VmaAttributes> {
    let mut all = Vec::new();
    space.inspect().each_vma(|attributes| all.push(*attributes));
    all
}

/// Gives the mapping at `addr` flags that no call gives it.
pub(in crate::space::tests) fn set_flags(space: &TestSpace<'_>, addr: VirtAddr, flags: VmaFlags) {
    let attributes = space.inspect().vma_at(addr).unwrap();
    let guard = space.write(attributes.range);
    let edit = VmaEdit::new(&space.mappings, &guard);
    let changed = edit.at(addr.vpn()).unwrap().with_flags(flags);
    edit.replace(attributes.range, &[Some((changed, VmaState::Live))], VpnRange::default()).unwrap();
}

pub(in crate::space::tests) fn leaf(space: &TestSpace<'_>, page: Vpn) -> Option<Leaf> {
    let reading = space.vm().rcu.read();
    match walk(&space.entries.table, page, Level::Pte, &reading).entry() {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}

/// The pages of each mapping, counted from page 0.
pub(in crate::space::tests) fn ranges(space: &TestSpace<'_>) -> Vec<core::ops::Range<u64>> {
    let nr = |page: Vpn| page.0 - BASE.vpn().0;
    mappings(space).iter().map(|vma| nr(vma.range.start)..nr(vma.range.end)).collect()
}
