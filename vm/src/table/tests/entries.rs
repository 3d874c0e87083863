//! Entries that the hardware marks while the library changes them.

use crate::frame::{BootMap, GatherBatch, Init, Memory, Priority, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::machine::{Entry, Format, Leaf, LeafKind};
use crate::sync::Rcu;
use crate::table::{LeafBits, PageTable, walk};
use crate::units::{Level, NodeId, PAGE_SIZE, Rights, VirtAddr, Vpn};
use core::cell::Cell;

pub(super) fn memory(machine: &TestMachine) -> Memory<'_, TestMachine> {
    let frames = machine.frames();
    let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE_SIZE as u64);
    let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) };
    Memory::new(machine, BootMap::new(&[region]).unwrap()).unwrap()
}

/// The walker of another CPU sets accessed and dirty between the read of an entry and its write: the change
/// is made anew, from the word with the marks.
#[test]
fn marks_that_the_hardware_sets_while_an_entry_is_adjusted_are_kept() {
    let machine = TestMachine::new(100);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let root = memory.alloc_table(Priority::Normal).unwrap();
    let tree = PageTable::new(&memory, root, &rcu);
    let (slot, page) = (5, VirtAddr(0).vpn().add(5 * Level::P4d.entry_pages()));
    let before = Leaf::new(memory.zero_frame(), Rights::all());
    let mut table = tree.top().lock().unwrap();
    // SAFETY: no CPU loads the root.
    unsafe { table.set_entry(slot, Entry::Leaf(before)) };
    let looked = Cell::new(0);
    let adjusted = table.adjust(slot, |leaf| {
        if looked.replace(looked.get() + 1) == 0 {
            let used = TestFormat::used(TestFormat::encode(Entry::Leaf(leaf), Level::P4d), true);
            machine.set_entry(tree.root(), Level::P4d, page, TestFormat::decode(used, Level::P4d));
        }
        Some(LeafBits { rights: Rights::READ, ..LeafBits::of(leaf) })
    });
    let marked = Leaf { accessed: true, dirty: true, ..before };
    assert_eq!(adjusted, Some((marked, true)));
    assert_eq!(table.entry(slot), Entry::Leaf(Leaf { rights: Rights::READ, ..marked }));
    assert_eq!(looked.get(), 2);
    assert!(table.unhook(slot, page).is_some());
}

/// What the hardware noted goes with the frame: a clock reads *accessed*, a file or swap *dirty*.
#[test]
fn a_leaf_that_is_unhooked_says_how_it_was_used() {
    let machine = TestMachine::new(100);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let tree = PageTable::new(&memory, memory.alloc_table(Priority::Normal).unwrap(), &rcu);
    let before = memory.check().unwrap().allocated;
    for (accessed, dirty) in [(false, false), (true, false), (true, true)] {
        let pfn = memory.alloc_zeroed(Priority::Normal).unwrap().into_mapped().into_entry(&memory);
        let mut table = tree.top().lock().unwrap();
        // SAFETY: no CPU loads the root; the entry has the frame's mapping.
        unsafe {
            table.set_entry(
                5,
                Entry::Leaf(Leaf { accessed, dirty, kind: LeafKind::OWNED, ..Leaf::new(pfn, Rights::all()) }),
            )
        };
        let unhooked = table.unhook(5, Vpn(5 * Level::P4d.entry_pages())).unwrap();
        drop(table);
        assert_eq!((unhooked.accessed(), unhooked.dirty()), (accessed, dirty));
        let mut batch = GatherBatch::default();
        batch.add(&memory, unhooked);
        batch.free_after(&memory, &rcu, || ());
    }
    assert_eq!(memory.check().unwrap().allocated, before);
}

/// A table that is detached waits for the readers of the tree's own RCU.
#[test]
#[should_panic = "a read section of another RCU"]
fn a_walk_under_another_rcus_guard_is_refused() {
    let machine = TestMachine::new(100);
    let memory = memory(&machine);
    let [rcu, foreign] = [(); 2].map(|()| Rcu::carve(&mut memory.boot_allocator(), 1).unwrap());
    let root = memory.alloc_table(Priority::Normal).unwrap();
    let tree = PageTable::new(&memory, root, &rcu);
    assert_eq!(walk(&tree, Vpn(5), Level::Pte, &rcu.read()).entry(), Entry::Absent);
    walk(&tree, Vpn(5), Level::Pte, &foreign.read());
}
