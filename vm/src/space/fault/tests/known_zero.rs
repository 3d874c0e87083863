//! The short way of a load to the huge zero page: what it refuses, and that it changes nothing then.

use super::install::TestSpace;
use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::Entry;
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::{AddressSpace, Fault, Layout, MapRequest, Path, Place, Vm, VmOptions};
use crate::table::walk;
use crate::units::{Access, Level, NodeId, PageSize, Rights, VirtAddr};
use crate::vma::{HugePolicy, ThpDisable, VmaFlags};

const HUGE_BYTES: u64 = PageSize::Huge.bytes();
/// Where four huge pages are mapped; the first shows the huge zero page, so that the space has a reference.
const BASE: VirtAddr = VirtAddr(64 << 30);

fn with_space(test: impl FnOnce(&TestSpace<'_>)) {
    let machine = TestMachine::with_cpus(4 << 9, 2);
    let frames = machine.frames();
    let (start, len_bytes) = (frames.start.addr(), frames.len() << 12);
    let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) };
    let memory = BootMap::new(&[region]).unwrap().claim(&machine).unwrap();
    let options = VmOptions { huge_pages: HugePolicy::Always, ..VmOptions::default() };
    let vm = Vm::start(memory, options).unwrap();
    let space =
        AddressSpace::new(&vm, Layout::linux::<TestFormat>().overcommit(), Path::Speculative).unwrap();
    let request = MapRequest { place: Place::Fixed(BASE), ..MapRequest::anonymous(4 * HUGE_BYTES) };
    space.map(&request).unwrap();
    space.fault(Fault { addr: BASE, access: Access::Read }).unwrap();
    test(&space);
    drop(space);
    vm.trim();
    vm.memory().check().unwrap();
}

fn nth(n: u64) -> VirtAddr {
    VirtAddr(BASE.0 + n * HUGE_BYTES)
}

fn entry(space: &TestSpace<'_>, n: u64) -> Entry {
    walk(&space.entries.table, nth(n).vpn(), Level::Pte, &space.vm.rcu.read()).entry()
}

/// A load of the nth huge page; `meanwhile` runs on another CPU when the mapping was found and the tables
/// were walked.
fn map_known(space: &TestSpace<'_>, n: u64, meanwhile: impl FnOnce() + Send) -> bool {
    let (page, reading) = (nth(n).vpn(), space.vm.rcu.read());
    let vma = space.faults().find_cached(&reading, page).unwrap();
    let found = walk(&space.entries.table, page, Level::Pte, &reading);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            space.vm.machine.run_as(1);
            meanwhile();
        });
    });
    let fault = Fault { addr: nth(n), access: Access::Read };
    space.faults().map_known_huge_zero(vma, fault, &found, &reading)
}

#[test]
fn it_maps_the_page_to_read_and_never_to_write() {
    with_space(|space| {
        assert!(map_known(space, 1, || ()));
        let Entry::Leaf(leaf) = entry(space, 1) else { panic!("{:?}", entry(space, 1)) };
        assert_eq!((leaf.rights, leaf.owned()), (Rights::READ | Rights::USER, false));
        assert_eq!(entry(space, 0), Entry::Leaf(leaf), "as the long way maps it");
        assert_eq!(space.inspect().resident().huge_zero_pages, 2);
    });
}

#[test]
fn it_maps_nothing_for_a_mapping_that_was_replaced_meanwhile() {
    with_space(|space| {
        let protect = || space.protect(nth(1), HUGE_BYTES, VmaFlags::empty()).unwrap();
        assert!(!map_known(space, 1, protect));
        let unmap = || space.unmap(VirtAddr(nth(2).0 + 4096), 4096).unwrap();
        assert!(!map_known(space, 2, unmap), "a part of the huge page is gone");
        assert_eq!([entry(space, 1), entry(space, 2)], [Entry::Absent; 2]);
    });
}

#[test]
fn it_leaves_an_entry_alone_that_is_not_absent_any_more() {
    with_space(|space| {
        let store = || {
            space.fault(Fault { addr: nth(1), access: Access::Write }).unwrap();
        };
        assert!(!map_known(space, 1, store));
        assert!(matches!(entry(space, 1), Entry::Leaf(leaf) if leaf.owned()));
    });
}

#[test]
fn it_does_nothing_where_huge_pages_are_refused_or_do_not_fit() {
    with_space(|space| {
        space.set_thp_disable(ThpDisable::Completely);
        assert!(!map_known(space, 1, || ()));
        space.set_thp_disable(ThpDisable::None);
        let small = VirtAddr(BASE.0 + 8 * HUGE_BYTES);
        let request = MapRequest { place: Place::Fixed(small), ..MapRequest::anonymous(4096) };
        space.map(&request).unwrap();
        assert!(!map_known(space, 8, || ()));
        assert_eq!([entry(space, 1), entry(space, 8)], [Entry::Absent; 2]);
    });
}
