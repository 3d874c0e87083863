//! What is refused, with which error, and what it leaves.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::machine::{Entry, Leaf};
use crate::space::edit::VmaEdit;
use crate::space::{
    AddressSpace, Advice, Error, Fault, Layout, MapRequest, Misplaced, Path, Place, Sharing, Vm,
};
use crate::table::walk;
use crate::units::{Access, Level, NodeId, PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use crate::vma::{FlagAdvice, PolicyMode, PolicyRequest, VmaAttributes, VmaFlags, VmaState};
use std::vec::Vec;

type TestSpace<'a> = AddressSpace<'a, TestMachine>;

const PAGE: u64 = PAGE_SIZE as u64;
/// Address of the first mapping of each test.
const BASE: VirtAddr = VirtAddr(PAGE << 10);

/// Runs the test with an empty space that may have `max_mappings`. Afterwards as many frames are handed out
/// as before.
fn with_space(max_mappings: usize, test: impl FnOnce(&TestSpace<'_>)) {
    with_layout(Layout { max_mappings, ..Layout::linux::<TestFormat>() }, test);
}

/// The same with another layout.
fn with_layout(layout: Layout, test: impl FnOnce(&TestSpace<'_>)) {
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
    space.inspect().each_vma(|attributes| all.push(*attributes));
    all
}

/// Gives the mapping at `addr` flags that no call gives it.
fn set_flags(space: &TestSpace<'_>, addr: VirtAddr, flags: VmaFlags) {
    let attributes = space.inspect().vma_at(addr).unwrap();
    let guard = space.write(attributes.range);
    let edit = VmaEdit::new(&space.mappings, &guard);
    let changed = edit.at(addr.vpn()).unwrap().with_flags(flags);
    edit.replace(attributes.range, &[Some((changed, VmaState::Live))], VpnRange::default()).unwrap();
}

fn leaf(space: &TestSpace<'_>, page: Vpn) -> Option<Leaf> {
    let reading = space.vm().rcu.read();
    match walk(&space.entries.table, page, Level::Pte, &reading).entry() {
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
        let (object, first) = space.object_at(from).unwrap();
        assert_eq!(space.map(&occupied.backed_by(object.at_page(first))), Err(Error::Exists));
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
        let flags = space.inspect().vma_at(page(0)).unwrap().flags;
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

/// The pages of each mapping, counted from page 0.
fn ranges(space: &TestSpace<'_>) -> Vec<core::ops::Range<u64>> {
    let nr = |page: Vpn| page.0 - BASE.vpn().0;
    mappings(space).iter().map(|vma| nr(vma.range.start)..nr(vma.range.end)).collect()
}

/// A change that needs two splits where one mapping may be added keeps the first, as in Linux; where none may
/// be, it changes nothing.
#[test]
fn a_change_that_is_refused_at_its_second_split_keeps_the_first() {
    type Call = fn(&TestSpace<'_>) -> Result<(), Error>;
    let calls: [(Call, Error); 3] = [
        (|space| space.protect(page(1), 2 * PAGE, VmaFlags::READ), Error::NoMemory),
        (|space| space.advise(page(1), 2 * PAGE, Advice::Flag(FlagAdvice::Random)), Error::Again),
        (
            |space| {
                let policy = PolicyRequest::of(PolicyMode::Bind, 1);
                space.set_policy(page(1), 2 * PAGE, policy, Misplaced::Keep)
            },
            Error::NoMemory,
        ),
    ];
    for (call, error) in calls {
        for (most, left) in [(1, 0..4), (2, 0..1), (3, 0..1)] {
            with_space(most, |space| {
                map(space, 0, 4);
                write(space, page(0));
                let flags = space.inspect().vma_at(page(0)).unwrap().flags;
                assert_eq!(call(space), if most == 3 { Ok(()) } else { Err(error) });
                assert_eq!((mappings(space).len(), ranges(space)[0].clone()), (most, left));
                let unchanged = mappings(space).iter().all(|vma| vma.flags == flags);
                assert!(most == 3 || unchanged, "halves that are alike");
                assert!(leaf(space, page(0).vpn()).is_some());
            });
        }
    }
}

/// Of several mappings those before the refusal have changed.
#[test]
fn mappings_before_one_that_may_not_be_split_have_changed() {
    with_space(4, |space| {
        map(space, 0, 2);
        space.protect(page(0), PAGE, VmaFlags::READ).unwrap();
        map(space, 2, 3);
        assert_eq!(ranges(space), [0..1, 1..5]);
        let request = MapRequest { place: Place::Fixed(page(7)), ..MapRequest::anonymous(PAGE) };
        space.map(&request).unwrap();
        space.map(&MapRequest { place: Place::Fixed(page(9)), ..request }).unwrap();
        let advise = |advice| space.advise(page(0), 4 * PAGE, Advice::Flag(advice));
        assert_eq!(advise(FlagAdvice::DontDump), Err(Error::Again));
        assert_eq!(ranges(space), [0..1, 1..5, 7..8, 9..10]);
        let has = |nr| space.inspect().vma_at(page(nr)).unwrap().flags.contains(VmaFlags::DONT_DUMP);
        assert!(has(0) && !has(1));
    });
}

#[test]
fn a_refused_fixed_mapping_leaves_what_linux_leaves() {
    let few = Layout { max_commit_pages: Some(3), ..Layout::linux::<TestFormat>() };
    let fixed = |nr, sharing| MapRequest {
        place: Place::Fixed(page(nr)),
        sharing,
        ..MapRequest::anonymous(8 * PAGE)
    };
    with_layout(few, |space| {
        map(space, 0, 3);
        write(space, page(1));
        assert_eq!(space.map(&fixed(1, Sharing::Private)), Err(Error::NoMemory));
        assert_eq!(ranges(space), [0..1, 1..3], "split where it would have begun");
        assert!(leaf(space, page(1).vpn()).is_some());
        assert_eq!(space.map(&fixed(1, Sharing::Shared)), Err(Error::NoMemory));
        assert_eq!(ranges(space), std::vec![0..1], "a shared one is refused when the old is gone");
        assert!(leaf(space, page(1).vpn()).is_none());
        let beside = MapRequest { place: Place::FixedNoReplace(page(1)), ..fixed(1, Sharing::Shared) };
        assert_eq!(space.map(&beside), Err(Error::NoMemory));
        assert_eq!(ranges(space), std::vec![0..1]);
    });
}

/// A request is granted up to the frames of the machine, as by Linux's heuristic without swap, or as the
/// layout says. Requests are not summed.
#[test]
fn one_request_commits_the_frames_of_the_machine_at_most() {
    let usual = Layout::linux::<TestFormat>();
    with_layout(usual, |space| {
        let most = space.vm().memory().stats().managed;
        let no_memory = Err(Error::NoMemory);
        let flags = |flags, pages| MapRequest { flags, ..MapRequest::anonymous(pages * PAGE) };
        let read_write = VmaFlags::READ | VmaFlags::WRITE;
        assert_eq!(space.map(&flags(read_write, most + 1)), no_memory);
        let shared = MapRequest { sharing: Sharing::Shared, ..flags(read_write, most + 1) };
        assert_eq!(space.map(&shared), no_memory);
        let large = space.map(&flags(VmaFlags::READ, most + 2)).unwrap();
        assert_eq!(space.protect(large, (most + 1) * PAGE, read_write), Err(Error::NoMemory));
        space.protect(large, most * PAGE, read_write).unwrap();
        let unreserved = space.map(&flags(read_write | VmaFlags::NORESERVE, 1 << 30)).unwrap();
        space.protect(unreserved, PAGE << 30, VmaFlags::READ).unwrap();
        space.protect(unreserved, PAGE << 30, read_write).unwrap();
        for _ in 0..2 {
            space.map(&flags(read_write, most)).unwrap();
        }
        let heap = space.layout().heap_start;
        let end = VirtAddr(heap.0 + (most + 1) * PAGE);
        assert_eq!((space.brk(end), space.brk(VirtAddr(end.0 - PAGE)).0), (heap, end.0 - PAGE));
    });
    with_layout(Layout { max_commit_pages: Some(u64::MAX), ..usual }, |space| {
        space.map(&MapRequest::anonymous(PAGE << 30)).unwrap();
    });
}

/// Advice that is refused at a locked part has dropped what lies before it.
#[test]
fn contents_before_a_locked_part_are_dropped() {
    with_space(100, |space| {
        map(space, 0, 4);
        space.protect(page(2), PAGE, VmaFlags::READ).unwrap();
        space.protect(page(2), PAGE, VmaFlags::READ | VmaFlags::WRITE).unwrap();
        map(space, 8, 2);
        let flags = space.inspect().vma_at(page(8)).unwrap().flags;
        set_flags(space, page(8), flags | VmaFlags::LOCKED);
        let present = || [0, 1, 8, 9].map(|nr| leaf(space, page(nr).vpn()).is_some());
        [0, 1, 8, 9].iter().for_each(|&nr| write(space, page(nr)));
        assert_eq!(space.advise(page(0), 10 * PAGE, Advice::DontNeed), Err(Error::Invalid));
        assert_eq!(present(), [false, false, true, true]);
        assert_eq!(space.advise(page(8), 2 * PAGE, Advice::DontNeedLocked), Ok(()));
        assert_eq!(present(), [false; 4]);
    });
}
