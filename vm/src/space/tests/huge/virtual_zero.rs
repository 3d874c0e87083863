//! The virtual huge zero page: one table for all, what TLBs hold of it, and which space is shown what. What
//! it shares with the huge zero page is tested there (`zero`), with both.

use super::*;
use crate::frame::{AllocRequest, BootMap, Init, Region, RegionKind};
use crate::space::pin::PinUse;
use crate::space::{Advice, Collapsed, Layout, Path};
use crate::table::format::Sv48;
use crate::table::{LeafBits, NoteUse, Resident};
use crate::units::{NodeId, Order};
use crate::vma::{CollapseLimits, MthpPolicy, Requester, VmaFlags};
use std::vec::Vec;

type Edit<'t> = &'t dyn Fn(&TestSpace<'_>);

fn with_table(test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    with_policies(10 * HUGE, (HugePolicy::Always, ZeroPagePolicy::Virtual), test);
}

fn load(space: &TestSpace<'_>, page: u64) {
    fault(space, page, Access::Read);
}

/// Whether the page is shown by the table.
fn is_by_table(space: &TestSpace<'_>, page: u64) -> bool {
    leaf(space, page).is_some_and(|(leaf, covers)| leaf.by_table() && !leaf.owned() && covers == HUGE)
}

#[test]
fn all_spaces_and_slots_show_one_table_and_no_block_is_used() {
    for path in Path::ALL {
        with_table(|vm, space| {
            let other = AddressSpace::new(vm, *space.layout(), path).unwrap();
            // A folio of 2 MiB cannot be had.
            let taken: Vec<_> =
                core::iter::from_fn(|| vm.memory().alloc(Order::HUGE, AllocRequest::DIRTY)).collect();
            let before = vm.memory().stats().allocated();
            for space in [&space, &other] {
                map(space, 0, 8 * HUGE);
                (0..8).for_each(|nth| load(space, nth * HUGE + nth));
                assert!((0..8).all(|nth| is_by_table(space, nth * HUGE + 99)));
            }
            let table = leaf(&space, 0).unwrap().0.pfn;
            assert_eq!(leaf(&other, 7 * HUGE).unwrap().0.pfn, table);
            assert!(vm.memory().zero_pages().is_table(table) && vm.memory().zero_pages().table_frames() == 1);
            // The table, and three above it in each space, less the roots.
            let used = vm.memory().stats().allocated() - before;
            assert!(used <= 1 + 2 * 3 + 8, "{used} frames for 32 MiB");
            assert_eq!(vm.memory().zero_pages().huge_frames(), 0);
            let counts = Resident { huge_zero_pages: 8, ..Resident::default() };
            assert_eq!((space.inspect().resident(), counts.pages()), (counts, 0));
            let mut visited = 0;
            space.mincore(at(0), 8 * HUGE * PAGE, |_, there| visited += u64::from(there)).unwrap();
            assert_eq!(visited, 8 * HUGE);
            assert_eq!(vm.totals().get(Counter::ThpZeroPageAlloc), 1);
            drop(taken);
        });
    }
}

/// Every page is a page of its own in a TLB: whatever takes the leaf away flushes all of them.
#[test]
fn what_changes_the_leaf_flushes_each_of_its_pages() {
    let edits: [(&str, Edit<'_>); 6] = [
        ("a store", &|space| store(space, 5, 7)),
        ("munmap of a part", &|space| space.unmap(at(HUGE - 1), PAGE).unwrap()),
        ("munmap", &|space| space.unmap(at(0), HUGE * PAGE).unwrap()),
        ("MADV_DONTNEED", &|space| space.advise(at(0), HUGE * PAGE, Advice::DontNeed).unwrap()),
        ("mprotect", &|space| space.protect(at(0), HUGE * PAGE, VmaFlags::empty()).unwrap()),
        ("mprotect of a part", &|space| space.protect(at(9), PAGE, VmaFlags::READ).unwrap()),
    ];
    for (name, edit) in edits {
        with_table(|vm, space| {
            let running = space.activate(None);
            map(&space, 0, HUGE);
            load(&space, 0);
            let sees = |page| vm.machine().translate(Vpn(BASE + page), Access::Read).is_some();
            assert!((0..HUGE).step_by(7).all(sees));
            edit(&space);
            let stale = (0..HUGE).find(|&page| vm.machine().has_cached(0, Vpn(BASE + page)));
            assert_eq!(stale, None, "{name}: a page is cached still");
            drop(running);
        });
    }
}

#[test]
fn a_page_leads_to_the_zero_page_and_to_no_frame_of_the_table() {
    with_table(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let table = leaf(&space, 3).unwrap().0.pfn;
        let reading = vm.read();
        for page in [0, 3, HUGE - 1] {
            let led = space
                .walker()
                .translate_access(at(page), Access::Read, NoteUse::AsHardware, &reading)
                .unwrap();
            assert_eq!((led.pfn, led.size, led.owned), (vm.memory().zero_frame(), PageSize::Base, false));
            assert!(!led.rights.contains(Rights::WRITE));
            let write =
                space.walker().translate_access(at(page), Access::Write, NoteUse::AsHardware, &reading);
            assert!(write.is_err());
        }
        drop(reading);
        let section = vm.read_in_handler();
        let all = VpnRange::new(Vpn(BASE), Vpn(BASE + HUGE));
        let find = |pfn| space.walker().find_frame_in_handler(pfn, all, 100, &section).page;
        assert_eq!(find(vm.memory().zero_frame()), Some(Vpn(BASE)));
        assert_eq!([table, table.add(1)].map(find), [None; 2]);
    });
}

#[test]
fn a_scan_of_accessed_bits_clears_that_of_the_slot_and_none_of_the_table() {
    with_table(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let all = VpnRange::new(Vpn(BASE), Vpn(BASE + HUGE));
        let scan = space.walker().scan_accessed(all, &vm.read(), |pages, _| assert_eq!(pages, all));
        assert_eq!((scan.leaves, scan.accessed), (1, 1));
        assert!(is_by_table(&space, 3) && !leaf(&space, 3).unwrap().0.accessed);
        let again = space.walker().scan_accessed(all, &vm.read(), |_, _| ());
        assert_eq!((again.leaves, again.accessed), (1, 0));
    });
}

#[test]
fn without_a_frame_for_the_table_a_load_changes_nothing_or_gets_a_small_page() {
    with_table(|vm, space| {
        map(&space, 0, 3 * HUGE);
        // The tables above are there.
        store(&space, 2 * HUGE, 1);
        vm.memory().plan_mishap(1);
        load(&space, 3);
        vm.memory().plan_mishap(0);
        assert!(!is_by_table(&space, 3) && peek(&space, 3) == Some(0));
        assert_eq!(vm.totals().get(Counter::ThpZeroPageAllocFailed), 1);
        load(&space, HUGE + 3);
        assert!(is_by_table(&space, HUGE + 3), "there is memory for it now");
    });
}

#[test]
fn a_child_shows_the_same_table() {
    with_table(|vm, space| {
        map(&space, 0, 3 * HUGE);
        (0..3).for_each(|nth| load(&space, nth * HUGE));
        let child = space.fork().unwrap();
        assert_eq!(leaf(&child, HUGE), leaf(&space, HUGE));
        store(&space, 3, 6);
        store(&child, HUGE + 1, 7);
        assert_eq!([peek(&child, 3), peek(&space, HUGE + 1)], [Some(0); 2]);
        drop(space);
        vm.trim();
        assert!(is_by_table(&child, 2 * HUGE) && peek(&child, 2 * HUGE) == Some(0));
    });
}

#[test]
fn the_entries_of_the_table_are_never_written() {
    with_table(|vm, space| {
        let running = space.activate(None);
        map(&space, 0, 2 * HUGE);
        load(&space, 3);
        let table = leaf(&space, 3).unwrap().0.pfn;
        let words = || {
            let mut words = [0; 4096];
            vm.machine().read(table, 0, &mut words);
            words
        };
        let before = words();
        assert!((0..HUGE).all(|page| vm.machine().translate(Vpn(BASE + page), Access::Read).is_some()));
        load(&space, HUGE);
        space.protect(at(0), HUGE * PAGE, VmaFlags::empty()).unwrap();
        space.protect(at(0), HUGE * PAGE, VmaFlags::READ | VmaFlags::WRITE).unwrap();
        load(&space, 4);
        store(&space, 5, 7);
        space.unmap(at(HUGE + 9), PAGE).unwrap();
        assert_eq!(words(), before);
        drop(running);
    });
}

#[test]
fn its_leaf_never_becomes_writable_and_stays_one_when_its_rights_change() {
    with_table(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let reading = vm.read();
        let found = walk(space.inspect().page_table(), Vpn(BASE), Level::Pte, &reading);
        let mut table = found.table.lock().unwrap();
        for rights in [Rights::all(), Rights::empty(), Rights::READ | Rights::USER] {
            let change = |leaf| Some(LeafBits { rights, ..LeafBits::of(leaf) });
            assert!(table.adjust_unbounded(found.slot, change).is_some_and(|(leaf, _)| leaf.by_table()));
            let Entry::Leaf(leaf) = table.entry(found.slot) else { panic!() };
            assert_eq!((leaf.by_table(), leaf.rights), (true, rights - Rights::WRITE));
        }
        drop(table);
        drop(reading);
        store(&space, 3, 1);
    });
}

/// A collapse finds a huge page there, and makes one of the table that a split has left.
#[test]
fn a_collapse_leaves_it_and_joins_what_a_split_has_left() {
    with_table(|vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        let collapse = || space.collapse_region(Vpn(BASE), Requester::Program, &CollapseLimits::NONE);
        assert_eq!(collapse(), Ok(Collapsed::Already));
        assert!(is_by_table(&space, 3));
        // The pin's page is memory of its own, the others are small zero pages.
        drop(space.pins().pin_page(Vpn(BASE + 5), PinUse::Access(Access::Write)).unwrap());
        store(&space, 5, 7);
        assert!(!is_by_table(&space, 3));
        assert_eq!(collapse(), Ok(Collapsed::Copied));
        assert!(
            is_huge(&space, 0) && (0..HUGE).all(|page| peek(&space, page) == Some(7 * u8::from(page == 5)))
        );
        assert_eq!(vm.memory().zero_pages().table_frames(), 1);
    });
}

/// A store with no block of 2 MiB: the table of zeros becomes one of the space's own, whose slots are not
/// absent, so no mTHP folio comes there.
#[test]
fn sizes_between_come_to_absent_slots_and_not_to_those_of_zeros() {
    let sizes = MthpPolicies::NEVER.with(Order(4), MthpPolicy::Always);
    let folios = |vm: &TestVm<'_>| vm.totals().get(Counter::anon_fault_alloc(Order(4)).unwrap());
    with_sizes_and_policies(10 * HUGE, (HugePolicy::Always, ZeroPagePolicy::Virtual, sizes), |vm, space| {
        map(&space, 0, HUGE);
        load(&space, 3);
        assert!(is_by_table(&space, 3));
        let taken: Vec<_> =
            core::iter::from_fn(|| vm.memory().alloc(Order::HUGE, AllocRequest::DIRTY)).collect();
        store(&space, 5, 7);
        assert_eq!((folios(vm), peek(&space, 5), peek(&space, 6)), (0, Some(7), Some(0)));
        assert!(!is_huge(&space, 6) && leaf(&space, 6).is_some_and(|(leaf, _)| !leaf.owned()));
        drop(taken);
    });
}

/// A format whose pointers to tables bear no rights shows small zero pages, by tables of each space's own.
#[test]
fn a_format_that_cannot_show_it_has_small_zero_pages() {
    let machine = TestMachine::<Sv48>::of_format(4 * HUGE, 1);
    let (start, len_bytes) = (machine.frames().start.addr(), machine.frames().len() * PAGE);
    let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) };
    let memory = BootMap::new(&[region]).unwrap().claim(&machine).unwrap();
    let (huge_pages, zero_page) = (HugePolicy::Always, ZeroPagePolicy::Virtual);
    let vm = Vm::start(memory, VmOptions { huge_pages, zero_page, ..VmOptions::default() }).unwrap();
    for path in Path::ALL {
        let space = AddressSpace::new(&vm, Layout::linux::<Sv48>(), path).unwrap();
        let request = MapRequest { place: Place::Fixed(at(0)), ..MapRequest::anonymous(HUGE * PAGE) };
        space.map(&request).unwrap();
        space.fault(Fault { addr: at(3), access: Access::Read }).unwrap();
        let reading = vm.read();
        let found = walk(space.inspect().page_table(), Vpn(BASE + 3), Level::Pte, &reading);
        let Entry::Leaf(leaf) = found.entry() else { panic!() };
        assert_eq!((found.table.level(), leaf.pfn), (Level::Pte, vm.memory().zero_frame()));
        assert!(!leaf.by_table() && !leaf.owned());
    }
    assert_eq!((vm.memory().zero_pages().table_frames(), vm.memory().zero_pages().huge_frames()), (0, 0));
    let totals = vm.totals();
    assert_eq!([Counter::ThpZeroPageAlloc, Counter::ThpZeroPageAllocFailed].map(|nr| totals.get(nr)), [0; 2]);
}
