//! Entries that the hardware marks while the library changes them.

use crate::frame::{BootMap, Init, Memory, Priority, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::machine::{Entry, Format, Leaf};
use crate::table::PageTable;
use crate::units::{Level, NodeId, PAGE_SIZE, Rights, VirtAddr};
use core::cell::Cell;

/// The walker of another CPU sets accessed and dirty between the read of an entry and its write: the change
/// is made anew, from the word with the marks.
#[test]
fn marks_that_the_hardware_sets_while_an_entry_is_adjusted_are_kept() {
    let machine = TestMachine::new(100);
    let frames = machine.frames();
    let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE_SIZE as u64);
    let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) };
    let memory = Memory::new(&machine, BootMap::new(&[region]).unwrap()).unwrap();
    let root = memory.alloc_table(Priority::Normal).unwrap();
    let tree = PageTable::new(&memory, root);
    let (slot, page) = (5, VirtAddr(0).vpn().add(5 * Level::P4d.entry_pages()));
    let before = Leaf { pfn: memory.zero_frame(), rights: Rights::all(), accessed: false, dirty: false };
    let mut table = tree.top().lock().unwrap();
    table.install(slot, Entry::Leaf(before));
    let looked = Cell::new(0);
    let (old, changed) = table.adjust(slot, |entry| {
        let Entry::Leaf(leaf) = entry else { panic!("{entry:?}") };
        if looked.replace(looked.get() + 1) == 0 {
            let used = TestFormat::used(TestFormat::encode(entry, Level::P4d), true);
            machine.set_entry(root, Level::P4d, page, TestFormat::decode(used, Level::P4d));
        }
        Some(Entry::Leaf(Leaf { rights: Rights::READ, ..leaf }))
    });
    let marked = Leaf { accessed: true, dirty: true, ..before };
    assert_eq!((old, changed), (Entry::Leaf(marked), true));
    assert_eq!(table.entry(slot), Entry::Leaf(Leaf { rights: Rights::READ, ..marked }));
    assert_eq!(looked.get(), 2);
    table.clear(slot);
}
