//! Entries that faults do not know, and what entries leave behind in the records of their frames.

use super::install::{TestSpace, with_space};
use crate::frame::FrameState;
use crate::machine::{Entry, Leaf, LeafKind, Marker};
use crate::space::{Advice, Fault, FaultError, MapRequest, Sharing};
use crate::table::walk;
use crate::units::{Access, Level, PAGE_SIZE, Pfn, Rights, VirtAddr, Vpn};
use crate::vma::VmaFlags;

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages that one table of the lowest level covers.
const TABLE: u64 = Level::ENTRIES as u64;

fn touch(space: &TestSpace<'_>, page: Vpn) {
    space.fault(Fault { addr: page.addr(), access: Access::Write }).unwrap();
}

/// Writes an entry of `level` on the way to `page`, as no edit of the library does.
fn set(space: &TestSpace<'_>, page: Vpn, level: Level, entry: Entry) {
    let reading = space.vm.rcu.read();
    let table = walk(&space.entries.table, page, level, &reading).table;
    assert_eq!(table.level(), level);
    space.vm.machine.set_entry(table.pfn(), level, page, entry);
}

fn state(space: &TestSpace<'_>, frame: Pfn) -> FrameState {
    space.vm.memory().meta(frame).unwrap().state()
}

fn frame(space: &TestSpace<'_>, page: Vpn) -> Pfn {
    space.inspect().resident_frame(page).unwrap().0
}

fn is_discardable(space: &TestSpace<'_>, page: Vpn) -> bool {
    let reading = space.vm.rcu.read();
    let found = walk(&space.entries.table, page, Level::Pte, &reading);
    let table = found.table.lock().unwrap();
    table.is_discardable(found.slot)
}

#[test]
fn a_fault_that_meets_a_huge_leaf_of_other_frames_gives_it_no_right() {
    with_space(|space| {
        let start = space.map(&MapRequest::anonymous(3 * TABLE * PAGE)).unwrap().vpn();
        touch(space, start);
        let huge = Vpn((start.0 / TABLE + 1) * TABLE);
        let rights = Rights::READ | Rights::USER;
        let leaf = Entry::Leaf(Leaf::new(Pfn(TABLE), rights).used(false));
        set(space, huge, Level::Pmd, leaf);
        let fault = |access| space.fault(Fault { addr: huge.add(1).addr(), access }).map(drop);
        assert_eq!(fault(Access::Read), Ok(()), "it allows that");
        assert_eq!(fault(Access::Write), Err(FaultError::NotSupported));
        set(space, huge, Level::Pmd, Entry::Absent);
        touch(space, huge);
    });
}

#[test]
fn an_unknown_marker_is_neither_waited_for_nor_replaced() {
    with_space(|space| {
        let start = space.map(&MapRequest::anonymous(2 * PAGE)).unwrap().vpn();
        touch(space, start.add(1));
        set(space, start, Level::Pte, Entry::Marker(Marker::UNKNOWN));
        let fault = Fault { addr: start.addr(), access: Access::Write };
        assert_eq!(space.fault(fault), Err(FaultError::NotSupported));
        assert_eq!(space.inspect().resident_frame(start), None);
        set(space, start, Level::Pte, Entry::Absent);
        touch(space, start);
    });
}

/// As Linux: MADV_FREE marks the frame; what is stored afterwards is kept.
#[test]
fn memory_that_may_be_discarded_is_kept_once_it_is_written_again() {
    with_space(|space| {
        let start = space.map(&MapRequest::anonymous(PAGE)).unwrap();
        let page = start.vpn();
        touch(space, page);
        let pfn = frame(space, page);
        assert!(!is_discardable(space, page) && !state(space, pfn).is_lazyfree());
        space.advise(start, PAGE, Advice::Free).unwrap();
        assert!(is_discardable(space, page) && state(space, pfn).is_lazyfree());
        // The hardware's walker notes a store.
        let rights = space.inspect().vma_at(start).unwrap().rights();
        let word = Leaf { kind: LeafKind::OWNED, ..Leaf::new(pfn, rights).used(true) };
        set(space, page, Level::Pte, Entry::Leaf(word));
        assert!(!is_discardable(space, page));
        space.advise(start, PAGE, Advice::Free).unwrap();
        assert!(is_discardable(space, page));
        // A store that faults, because the leaf has lost the right.
        space.protect(start, PAGE, VmaFlags::READ).unwrap();
        space.protect(start, PAGE, VmaFlags::READ | VmaFlags::WRITE).unwrap();
        touch(space, page);
        assert!(!is_discardable(space, page) && !state(space, pfn).is_lazyfree());
    });
}

#[test]
fn a_frame_that_outlives_its_entry_knows_that_it_was_written() {
    with_space(|space| {
        let request = MapRequest { sharing: Sharing::Shared, ..MapRequest::anonymous(2 * PAGE) };
        let start = space.map(&request).unwrap();
        let (written, read) = (start.vpn(), start.vpn().add(1));
        touch(space, written);
        space.fault(Fault { addr: VirtAddr(start.0 + PAGE), access: Access::Read }).unwrap();
        let frames = [frame(space, written), frame(space, read)];
        assert!(frames.iter().all(|&pfn| !state(space, pfn).is_dirty()));
        space.advise(start, 2 * PAGE, Advice::DontNeed).unwrap();
        assert_eq!(frames.map(|pfn| state(space, pfn).is_dirty()), [true, false]);
        space.unmap(start, 2 * PAGE).unwrap();
    });
}
