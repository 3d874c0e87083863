//! Leaves of frames that a table does not own: PFN-mapped ones, and what the platform has in its slots of a
//! root.

use super::mapper::USER_RO;
use crate::frame::{AllocRequest, Base, BootMap, Init, Memory, Priority, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine, ThreeLevels, TwoLevels};
use crate::machine::{CacheType, Entry, Format, Leaf, LeafKind};
use crate::sync::Rcu;
use crate::table::pfnmap_leaves::install_pfn_leaves;
use crate::table::{LeafBits, PageTable, PfnMapFrames, scan_accessed, walk};
use crate::units::{Level, NodeId, Order, PAGE_SIZE, PageSize, PfnRange, Rights, Vpn, VpnRange};

/// Calls `f` with a machine, its memory, and a tree.
fn with_tree<F: Format>(
    f: impl FnOnce(&TestMachine<F>, &Memory<'_, TestMachine<F>>, &PageTable<'_, TestMachine<F>>),
) {
    let machine = TestMachine::<F>::of_format(512, 1);
    let (start, len_bytes) = (machine.frames().start.addr(), machine.frames().len() * PAGE_SIZE as u64);
    let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) };
    let memory = Memory::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let tree = PageTable::new(&memory, memory.alloc_table(Priority::Normal).unwrap(), &rcu);
    f(&machine, &memory, &tree);
}

/// The frame stays that of its keeper, and is not written: not counted as mapped by the child of a
/// fork, and not made writable by a caller that finds the leaf.
#[test]
fn a_leaf_of_a_frame_that_is_pfn_mapped_to_be_read_counts_no_mapping_and_gets_no_right() {
    with_tree::<TestFormat>(|_, memory, tree| {
        let page = Vpn(7);
        let kept = memory.alloc_frame(AllocRequest::ZEROED).unwrap().into_user();
        let frames = PfnRange::new(kept.pfn(), kept.pfn().add(1));
        // SAFETY: no CPU loads the root; the frame is kept until the test ends.
        let pfnmap = unsafe { PfnMapFrames::new(frames, USER_RO, CacheType::Device) };
        let bits = LeafBits { cache: pfnmap.cache(), ..LeafBits::new(USER_RO) };
        let (pages, mut mapped) = (VpnRange::new(page, page.add(1)), VpnRange::new(page, page));
        let alloc = || memory.alloc_table(Priority::Normal);
        install_pfn_leaves(tree, pages, kept.pfn(), (bits, PageSize::Base), &mut mapped, alloc).unwrap();

        let reading = tree.rcu.unwrap().read();
        let found = walk(tree, page, Level::Pte, &reading);
        let mut table = found.table.lock().unwrap();
        assert!(table.dup(found.slot, Base).unwrap().is_none());
        let meta = memory.meta(kept.pfn()).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount(), meta.state().is_exclusive()), (0, 1, true));

        let all = LeafBits::new(Rights::all()).used(true);
        let (before, changed) = table.adjust(found.slot, |_| Some(all)).unwrap();
        let Entry::Leaf(leaf) = table.entry(found.slot) else { panic!("the leaf stays") };
        assert!(changed && leaf.accessed && leaf.dirty, "the bits of use are anybody's");
        assert_eq!((before.rights, leaf.rights, leaf.cache), (USER_RO, USER_RO, CacheType::Device));
        // Rights that were taken away come back only by a caller that knows what the frames allow.
        table.adjust(found.slot, |leaf| Some(LeafBits { rights: Rights::empty(), ..LeafBits::of(leaf) }));
        table.adjust(found.slot, |_| Some(all));
        assert!(matches!(table.entry(found.slot), Entry::Leaf(leaf) if leaf.rights.is_empty()));
        table.adjust_unbounded(found.slot, |_| Some(bits));
        assert!(matches!(table.entry(found.slot), Entry::Leaf(leaf) if leaf.rights == USER_RO));
    });
}

/// A leaf in the root is a large page: the kernel's own, of frames that have no record, or another use.
fn the_platforms_leaf_is_left_alone<F: Format>() {
    with_tree::<F>(|machine, memory, tree| {
        let slot = Level::ENTRIES / 2 + 3;
        let page = Vpn(slot as u64 * F::ROOT.entry_pages());
        for pfn in [memory.span().start, memory.span().end.add(1 << 20)] {
            // Of the bits that say what owns a frame the platform knows nothing.
            let leaf = Leaf { kind: LeafKind::OWNED, ..Leaf::new(pfn, Rights::all()) };
            machine.set_entry(tree.root(), F::ROOT, page, Entry::Leaf(leaf));
            let mut root = tree.top().lock().unwrap();
            assert!(!root.copy_from_huge(slot, page, 0, &mut [0; 8]));
            assert_eq!((root.leaf(slot), root.owned_leaf(slot)), (None, None));
            root.set_lazyfree(slot, true);
            assert!(!root.is_discardable(slot) && !root.try_make_exclusive(slot));
            let order = F::ROOT.leaf_size().map_or(Order::BASE, PageSize::order);
            assert!(root.dup(slot, order).unwrap().is_none());
            let table = memory.alloc_table(Priority::Normal).unwrap();
            assert!(root.split_leaf(slot, table, || panic!("a flush for the platform's slot")).is_err());
            assert_eq!(root.entry(slot), Entry::Leaf(leaf));
        }
    });
}

#[test]
fn a_large_page_that_the_platform_has_in_the_root_is_left_alone() {
    the_platforms_leaf_is_left_alone::<TwoLevels>();
    the_platforms_leaf_is_left_alone::<ThreeLevels>();
}

/// A scan of all pages passes the platform's slots by, and those that cover no page.
#[test]
fn a_scan_leaves_the_platforms_leaf_marked() {
    with_tree::<TestFormat>(|machine, memory, tree| {
        let slot = Level::ENTRIES / 2 + 1;
        let page = Vpn(slot as u64 * Level::P4d.entry_pages());
        let leaf = Leaf { accessed: true, ..Leaf::new(memory.span().start, Rights::all()) };
        machine.set_entry(tree.root(), Level::P4d, page, Entry::Leaf(leaf));
        for start in [0, (slot as u64 - 2) * Level::P4d.entry_pages()] {
            let all = VpnRange { start: Vpn(start), end: Vpn(1 << 52) };
            let scan = scan_accessed(tree, all, &tree.rcu.unwrap().read(), |pages, _| panic!("{pages:?}"));
            assert_eq!((scan.leaves, tree.top().entry(slot)), (0, Entry::Leaf(leaf)));
        }
    });
}
