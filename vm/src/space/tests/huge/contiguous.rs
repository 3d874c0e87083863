//! Groups of contiguous leaves on AArch64: which edits of a locked table leave one, and what a collapse and a
//! fault that gives rights make of it.

use super::{BASE, HUGE, PAGE, at};
use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::TestMachine;
use crate::machine::{CONTIGUOUS_LEAVES, Entry, Format, Leaf};
use crate::space::{AddressSpace, Advice, Counter, Fault, Layout, MapRequest, Path, Place, Vm};
use crate::table::format::Aarch64;
use crate::table::{LeafBits, walk};
use crate::units::{Access, Level, NodeId, Order, Rights, Vpn};
use crate::vma::{CollapseLimits, HugeSizes, Requester, SizePolicy, VmaFlags};

type Machine = TestMachine<Aarch64>;
type Space<'v> = AddressSpace<'v, Machine>;

const GROUP: u64 = CONTIGUOUS_LEAVES as u64;

/// Runs the test in a space with a region of 2 MiB, all of which was written by blocks of 64 KiB, under both
/// proofs. Afterwards as many frames are allocated as before.
fn with_groups(test: impl Fn(&Vm<'_, Machine>, &Space<'_>)) {
    for path in [Path::Speculative, Path::Locked] {
        let machine = Machine::of_format(4 * HUGE, 2);
        let frames = machine.frames();
        let kind = RegionKind::Usable(Init::Dirty);
        let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE);
        let map = BootMap::new(&[Region { start, len_bytes, kind, node: NodeId(0) }]).unwrap();
        let vm = Vm::new(&machine, map).unwrap();
        let vm = vm.with_huge_sizes(HugeSizes::NEVER.with(Order(4), SizePolicy::Always));
        let allocated = || {
            vm.trim();
            vm.memory().check().unwrap().allocated
        };
        let before = allocated();
        let space = Space::new(&vm, Layout::linux::<Aarch64>(), path).unwrap();
        space.map(&MapRequest { place: Place::Fixed(at(0)), ..MapRequest::anonymous(HUGE * PAGE) }).unwrap();
        (0..HUGE).step_by(CONTIGUOUS_LEAVES).for_each(|page| fault(&space, page, Access::Write));
        for page in 0..HUGE {
            machine.write(leaf(&space, page).pfn, 0, &[page as u8]);
        }
        assert!((0..HUGE).all(|page| is_contiguous(&space, page)));
        test(&vm, &space);
        drop(space);
        assert_eq!(allocated(), before, "frames allocated before and after");
    }
}

fn fault(space: &Space<'_>, page: u64, access: Access) {
    space.fault(Fault { addr: at(page), access }).unwrap();
}

fn word(space: &Space<'_>, page: u64) -> u64 {
    let reading = space.vm().read();
    let found = walk(space.page_table(), Vpn(BASE + page), Level::Pte, &reading);
    assert_eq!(found.table.level(), Level::Pte);
    found.word
}

fn is_contiguous(space: &Space<'_>, page: u64) -> bool {
    Aarch64::is_contiguous(word(space, page))
}

fn leaf(space: &Space<'_>, page: u64) -> Leaf {
    match Aarch64::decode(word(space, page), Level::Pte) {
        Entry::Leaf(leaf) => leaf,
        other => panic!("{other:?} at page {page}"),
    }
}

/// Changes the bits of a page's leaf under the lock of its table, as safe code of an embedder may.
fn adjust(space: &Space<'_>, page: u64, change: impl Fn(Leaf) -> LeafBits) -> (Leaf, bool) {
    let reading = space.vm().read();
    let found = walk(space.page_table(), Vpn(BASE + page), Level::Pte, &reading);
    found.table.lock().unwrap().adjust(found.slot, |leaf| Some(change(leaf))).unwrap()
}

#[test]
fn one_leaf_of_a_group_becomes_accessed_or_dirty_and_nothing_else() {
    with_groups(|_, space| {
        let read_only = |leaf| LeafBits { rights: Rights::READ | Rights::USER, ..LeafBits::of(leaf) };
        let clean = |leaf| LeafBits { dirty: false, ..LeafBits::of(leaf) };
        let idle = |leaf| LeafBits { accessed: false, ..LeafBits::of(leaf) };
        for page in [0, 3, 15] {
            let before = leaf(space, page);
            assert_eq!(adjust(space, page, read_only), (before, false));
            assert_eq!(adjust(space, page, clean), (before, false));
            assert_eq!(adjust(space, page, idle), (before, false));
            assert_eq!(leaf(space, page), before);
        }
        let all = crate::units::VpnRange::new(Vpn(BASE), Vpn(BASE + GROUP));
        assert_eq!(space.scan_accessed(all, &space.vm().read(), |_, _| ()).accessed, GROUP);
        let used = |leaf: Leaf| LeafBits::of(leaf).used(leaf.dirty);
        assert!(adjust(space, 3, used).1 && leaf(space, 3).accessed && !leaf(space, 4).accessed);
        assert!((0..GROUP).all(|page| is_contiguous(space, page)));
        // Of its own, it changes as it is told.
        space.protect(at(1), PAGE, VmaFlags::READ).unwrap();
        assert!((0..GROUP).all(|page| !is_contiguous(space, page)) && is_contiguous(space, GROUP));
        assert!(adjust(space, 3, read_only).1 && !leaf(space, 3).rights.contains(Rights::WRITE));
    });
}

#[test]
fn a_region_of_groups_is_collapsed_with_its_contents() {
    with_groups(|vm, space| {
        space.collapse_region(Vpn(BASE), Requester::Program, &CollapseLimits::NONE).unwrap();
        assert_eq!(vm.totals().get(Counter::ThpCollapseAlloc), 1);
        for page in 0..HUGE {
            let (pfn, _) = space.resident_frame(Vpn(BASE + page)).unwrap();
            let mut byte = [0];
            vm.machine().read(pfn, 0, &mut byte);
            assert_eq!(byte[0], page as u8, "page {page}");
        }
    });
}

#[test]
fn a_pin_that_refuses_a_collapse_has_its_group_made_single_leaves() {
    with_groups(|vm, space| {
        let pinned = vm.memory().try_get(leaf(space, 40).pfn).unwrap();
        let refused = space.collapse_region(Vpn(BASE), Requester::Program, &CollapseLimits::NONE);
        assert!(refused.is_err(), "{refused:?}");
        assert!((32..48).all(|page| leaf(space, page).pfn == leaf(space, 32).pfn.add(page - 32)));
        drop(pinned);
        fault(space, 33, Access::Write);
    });
}

/// Safe code of an embedder may install what it likes, but not over one of a group, which is unfolded as one.
#[test]
#[should_panic = "a leaf of a group is in the slot"]
fn no_leaf_is_installed_over_one_of_a_group() {
    with_groups(|_, space| {
        let reading = space.vm().read();
        let found = walk(space.page_table(), Vpn(BASE + 5), Level::Pte, &reading);
        let zero = LeafBits::new(Rights::READ | Rights::USER);
        found.table.lock().unwrap().install_zero(found.slot, zero);
    });
}

/// Another CPU may still have single pages cached where a flush is under way.
#[test]
fn a_block_is_no_group_while_a_flush_is_pending() {
    with_groups(|_, space| {
        space.advise(at(0), GROUP * PAGE, Advice::DontNeed).unwrap();
        let pending = space.tlb.begin_edit();
        fault(space, 4, Access::Write);
        assert!((0..GROUP).all(|page| !is_contiguous(space, page) && leaf(space, page).owned()));
        drop(pending);
        space.advise(at(0), GROUP * PAGE, Advice::DontNeed).unwrap();
        fault(space, 4, Access::Write);
        assert!((0..GROUP).all(|page| is_contiguous(space, page)));
    });
}
