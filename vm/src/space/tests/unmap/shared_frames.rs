//! Unmapping frames that other entries may map too: more of them than a gather keeps, in tables that go and
//! in tables that stay.

use crate::frame::FrameCounts;
use crate::machine::Entry;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::{PAGE, boot_map, space_of, store};
use crate::space::{AddressSpace, Advice, Counter, Fault, MapRequest, Place, Sharing, Vm};
use crate::table::{SlotMarker, walk};
use crate::units::{Access, Level, Pfn, VirtAddr};
use crate::vma::VmaFlags;
use std::vec::Vec;

type TestSpace<'v> = AddressSpace<'v, TestMachine>;
type TestVm<'m> = Vm<'m, TestMachine>;
const TABLE: u64 = Level::Pte.table_pages();
const BASE: VirtAddr = VirtAddr(PAGE * TABLE * 8);
/// The mapping: the end of one table, all of the next, the start of a third.
const FIRST: u64 = TABLE - 6;
const PAGES: u64 = 6 + TABLE + 6;
/// Mappings beside it, which keep the first table and the third.
const BESIDE: [u64; 2] = [0, 2 * TABLE + 40];

fn page(nr: u64) -> VirtAddr {
    VirtAddr(BASE.0 + nr * PAGE)
}

/// Pages of the mapping in all three tables, in several parts of each.
fn touched() -> Vec<u64> {
    (FIRST..TABLE).chain((TABLE..2 * TABLE).step_by(7)).chain(2 * TABLE..2 * TABLE + 6).collect()
}

fn map(space: &TestSpace<'_>, nr: u64, pages: u64, sharing: Sharing) {
    let request = MapRequest { place: Place::Fixed(page(nr)), ..MapRequest::anonymous(pages * PAGE) };
    space.map(&MapRequest { sharing, ..request }).unwrap();
}

fn counts(vm: &TestVm<'_>) -> FrameCounts {
    vm.trim();
    vm.memory().check().unwrap()
}

fn frame(space: &TestSpace<'_>, nr: u64) -> Option<Pfn> {
    space.inspect().resident_frame(page(nr).vpn()).map(|(pfn, _)| pfn)
}

/// The entries of the touched pages that are not absent.
fn left(space: &TestSpace<'_>) -> Vec<Entry> {
    let reading = space.vm().read();
    let entry = |nr| walk(space.inspect().page_table(), page(nr).vpn(), Level::Pte, &reading).entry();
    touched().into_iter().map(entry).filter(|entry| *entry != Entry::Absent).collect()
}

/// Runs `edit` on a space that this CPU runs and whose touched pages a child maps too. Asserts that it
/// flushes once, that nothing of the space is left, and that the child has everything. Afterwards as many
/// frames are allocated as before.
fn edit_flushes_once(edit: impl FnOnce(&TestSpace<'_>)) {
    let machine = TestMachine::new(1500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let before = counts(&vm).allocated;
    let space = space_of(&vm);
    map(&space, FIRST, PAGES, Sharing::Private);
    for nr in BESIDE {
        map(&space, nr, 1, Sharing::Private);
        store(&space, page(nr));
    }
    touched().into_iter().for_each(|nr| store(&space, page(nr)));
    let child = space.fork().unwrap();
    let frames: Vec<_> = touched().into_iter().map(|nr| frame(&child, nr)).collect();
    let running = space.activate(None);
    let flushes = vm.totals().get(Counter::TlbFlush);
    edit(&space);
    assert_eq!(vm.totals().get(Counter::TlbFlush) - flushes, 1, "flushes");
    assert_eq!(left(&space), []);
    vm.memory().check().unwrap();
    for (nr, had) in touched().into_iter().zip(&frames) {
        assert_eq!(frame(&child, nr), *had);
        let meta = vm.memory().meta(had.unwrap()).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount()), (1, 1), "only the child maps {nr}");
    }
    drop(running);
    drop((space, child));
    assert_eq!(counts(&vm).allocated, before, "frames allocated before and after");
}

#[test]
fn munmap_of_memory_that_a_child_has_too_flushes_once() {
    edit_flushes_once(|space| {
        let tables = space.vm().totals().get(Counter::TableFree);
        space.unmap(page(FIRST), PAGES * PAGE).unwrap();
        assert_eq!(space.vm().totals().get(Counter::TableFree) - tables, 1, "the second table");
    });
}

#[test]
fn dontneed_of_memory_that_a_child_has_too_flushes_once() {
    edit_flushes_once(|space| space.advise(page(FIRST), PAGES * PAGE, Advice::DontNeed).unwrap());
}

#[test]
fn a_mapping_put_over_memory_that_a_child_has_too_flushes_once() {
    edit_flushes_once(|space| map(space, FIRST, PAGES, Sharing::Private));
}

/// Its frames have one entry, and the object's index beside.
#[test]
fn munmap_of_shared_memory_flushes_once() {
    let machine = TestMachine::new(1500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    map(&space, FIRST, PAGES, Sharing::Shared);
    touched().into_iter().for_each(|nr| store(&space, page(nr)));
    let running = space.activate(None);
    let flushes = vm.totals().get(Counter::TlbFlush);
    space.unmap(page(FIRST), PAGES * PAGE).unwrap();
    assert_eq!(vm.totals().get(Counter::TlbFlush) - flushes, 1, "flushes");
    drop(running);
    counts(&vm);
}

/// Flushes of a space that no CPU runs interrupt no CPU: it frees as it goes.
#[test]
fn the_end_of_a_child_leaves_no_frame_in_its_slot() {
    let machine = TestMachine::new(1500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    map(&space, FIRST, PAGES, Sharing::Private);
    touched().into_iter().for_each(|nr| store(&space, page(nr)));
    drop(space.fork().unwrap());
    for nr in touched() {
        let meta = vm.memory().meta(frame(&space, nr).unwrap()).unwrap();
        assert_eq!((meta.mapcount(), meta.state().refcount()), (1, 1));
    }
}

/// It would be waited for: no edit of the space has left it, so none takes it out.
#[test]
fn a_slot_is_not_marked_as_pending_from_outside() {
    let machine = TestMachine::new(500);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    map(&space, 0, 2, Sharing::Private);
    store(&space, page(0));
    let pfn = frame(&space, 0).unwrap();
    let reading = vm.read();
    let found = walk(space.inspect().page_table(), page(1).vpn(), Level::Pte, &reading);
    let (mut table, slot) = (found.table.lock().unwrap(), found.slot);
    drop(reading);
    assert!(!table.mark(slot, SlotMarker::PendingFree(pfn)));
    assert_eq!(table.entry(slot), Entry::Absent);
    drop(table);
    space.fault(Fault { addr: page(1), access: Access::Write }).unwrap();
    space.protect(page(0), 2 * PAGE, VmaFlags::READ).unwrap();
}
