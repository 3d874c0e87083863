//! What is refused, with which error, and that it changes nothing.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::machine::{Entry, Leaf};
use crate::space::edit::VmaEdit;
use crate::space::{AddressSpace, Advice, Error, Fault, Layout, MapRequest, Path, Place, Sharing, Vm};
use crate::table::walk;
use crate::units::{Access, Level, NodeId, PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::{VmaAttributes, VmaFlags, VmaState};
use std::vec::Vec;

type TestSpace<'a> = AddressSpace<'a, TestMachine>;

const PAGE: u64 = PAGE_SIZE as u64;
/// Address of the first mapping of each test.
const BASE: VirtAddr = VirtAddr(PAGE << 10);

/// Runs the test with an empty space that may have `max_mappings`. Afterwards as many frames are handed out
/// as before.
fn with_space(max_mappings: usize, test: impl FnOnce(&TestSpace<'_>)) {
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
    let layout = Layout { max_mappings, ..Layout::linux::<TestFormat>() };
    test(&AddressSpace::new(&vm, layout, Path::Speculative).unwrap());
    assert_eq!(in_use(), before, "frames handed out before and after");
}

fn page(nr: u64) -> VirtAddr {
    VirtAddr(BASE.0 + nr * PAGE)
}

/// Maps `pages` private pages at page `nr`.
fn map(space: &TestSpace<'_>, nr: u64, pages: u64) {
    let request = MapRequest { place: Place::Fixed(page(nr)), ..MapRequest::anonymous(pages * PAGE) };
    space.map(&request).unwrap();
}

fn write(space: &TestSpace<'_>, addr: VirtAddr) {
    space.fault(Fault { addr, access: Access::Write }).unwrap();
}

fn mappings(space: &TestSpace<'_>) -> Vec<VmaAttributes> {
    let mut all = Vec::new();
    space.each_vma(|attributes| all.push(*attributes));
    all
}

/// Gives the mapping at `addr` flags that no call gives it.
fn set_flags(space: &TestSpace<'_>, addr: VirtAddr, flags: VmaFlags) {
    let attributes = space.vma_at(addr).unwrap();
    let guard = space.write(attributes.range);
    let edit = VmaEdit::new(space, &guard);
    let changed = edit.at(addr.vpn()).unwrap().with_flags(flags);
    edit.replace(attributes.range, &[Some((changed, VmaState::Live))], VpnRange::default()).unwrap();
}

fn leaf(space: &TestSpace<'_>, page: Vpn) -> Option<Leaf> {
    let reading = space.vm().rcu.read();
    match walk(&space.table, page, Level::Pte, &reading).entry() {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}

#[test]
fn shared_memory_outlives_no_mapping_of_it_though_a_further_one_was_refused() {
    with_space(100, |space| {
        let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(4 * PAGE) };
        let from = space.map(&request).unwrap();
        write(space, from);
        let occupied = MapRequest { place: Place::FixedNoReplace(from), ..request };
        assert_eq!(space.map_shared(space, from, &occupied), Err(Error::Exists));
        space.unmap(from, 4 * PAGE).unwrap();
    });
}

#[test]
fn a_mapping_is_split_while_there_are_fewer_than_the_maximum() {
    with_space(3, |space| {
        map(space, 0, 3);
        space.unmap(page(1), PAGE).unwrap();
        assert_eq!(mappings(space).len(), 2, "one below the maximum may be split");
        map(space, 10, 3);
        write(space, page(11));
        let before = mappings(space);
        assert_eq!(before.len(), 3);
        assert_eq!(space.unmap(page(11), PAGE), Err(Error::NoMemory));
        assert_eq!(mappings(space), before);
        assert!(leaf(space, page(11).vpn()).is_some(), "a refused munmap leaves the page");
        space.unmap(page(10), PAGE).unwrap();
        assert_eq!(mappings(space).len(), 3, "an end may be cut off");
    });
}

#[test]
fn rights_that_a_mapping_may_not_have_are_refused_with_eacces() {
    with_space(100, |space| {
        map(space, 0, 4);
        set_flags(space, page(0), VmaFlags::READ | VmaFlags::MAY_READ | VmaFlags::MAY_EXECUTE);
        let before = mappings(space);
        for wanted in [VmaFlags::WRITE, VmaFlags::READ | VmaFlags::WRITE] {
            assert_eq!(space.protect(page(1), 2 * PAGE, wanted), Err(Error::Access));
        }
        assert_eq!(mappings(space), before);
        space.protect(page(1), 2 * PAGE, VmaFlags::READ | VmaFlags::EXECUTE).unwrap();
    });
}

#[test]
fn locked_memory_is_not_dropped() {
    with_space(100, |space| {
        map(space, 0, 4);
        (0..4).for_each(|nr| write(space, page(nr)));
        let flags = space.vma_at(page(0)).unwrap().flags;
        set_flags(space, page(0), flags | VmaFlags::LOCKED);
        let frame = leaf(space, page(1).vpn());
        for advice in [Advice::DontNeed, Advice::Free, Advice::Cold] {
            assert_eq!(space.advise(page(1), PAGE, advice), Err(Error::Invalid));
        }
        assert_eq!(leaf(space, page(1).vpn()), frame);
        assert_eq!(space.advise(page(1), PAGE, Advice::WillNeed), Ok(()));
    });
}

#[test]
fn a_page_stays_dirty_whatever_rights_it_loses_and_gets_back() {
    with_space(100, |space| {
        map(space, 0, 1);
        write(space, page(0));
        let both = VmaFlags::READ | VmaFlags::WRITE;
        for rights in [VmaFlags::READ, VmaFlags::empty(), VmaFlags::READ, both | VmaFlags::EXECUTE] {
            space.protect(page(0), PAGE, rights).unwrap();
            let leaf = leaf(space, page(0).vpn()).unwrap();
            assert!(leaf.dirty && leaf.accessed, "{rights:?}: {leaf:?}");
        }
    });
}
