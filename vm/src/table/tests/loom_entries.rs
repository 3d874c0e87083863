//! A walk without a lock against a CPU that links a table.

use crate::frame::{BootMap, Init, Memory, Priority, Region, RegionKind};
use crate::machine::testing::{TestMachine, TwoLevels, with_leaked};
use crate::machine::{Entry, Leaf};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{Rcu, refill_zeros};
use crate::table::PageTable;
use crate::units::{Level, NodeId, PAGE_SIZE, Pfn, Rights};
use core::sync::atomic::AtomicUsize;
use loom::thread;

type Machine = TestMachine<TwoLevels>;
type Tree = PageTable<'static, Machine>;

const SLOT: usize = 3;

/// CPU 0 fills the table and links it, CPU 1 follows the entry into the table. Returns whether it was there.
fn link_against_walk(tree: &'static Tree, child: Pfn, leaf: Entry) -> bool {
    let walker = thread::spawn(move || {
        let Entry::Table(pfn) = tree.top().entry(SLOT) else { return false };
        let table = tree.top().child(pfn).unwrap();
        assert_eq!(table.entry(SLOT), leaf, "a linked table shows what it held before");
        true
    });
    tree.top().child(child).unwrap().lock().unwrap().install(SLOT, leaf);
    tree.top().lock().unwrap().install(SLOT, Entry::Table(child));
    walker.join().unwrap()
}

fn with_tree(f: impl FnOnce(&'static Tree, &'static Memory<'static, Machine>)) {
    with_leaked(Machine::of_format(96, 2), |machine| {
        let frames = machine.frames();
        let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE_SIZE as u64);
        let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Zeroed), node: NodeId(0) };
        let map = BootMap::new(&[region]).unwrap();
        with_leaked(Memory::new(machine, map).unwrap(), |memory| {
            let root = memory.alloc_table(Priority::Normal).unwrap();
            let rcu = Rcu::carve(&mut memory.boot_allocator(), 2).unwrap();
            with_leaked(rcu, |rcu| {
                with_leaked(PageTable::new(memory, root, rcu), |tree| f(tree, memory));
            });
        });
    });
}

#[test]
fn loom_a_table_is_filled_before_a_walk_finds_it() {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    static MISSED: AtomicUsize = AtomicUsize::new(0);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 100_000;
    model.check(|| {
        with_tree(|tree, memory| {
            let child = memory.alloc_table(Priority::Normal).unwrap();
            let pfn = memory.zero_frame();
            let leaf = Entry::Leaf(Leaf { pfn, rights: Rights::READ, accessed: true, dirty: false });
            assert_eq!(tree.top().child(child).unwrap().level(), Level::Pte);
            refill_zeros();
            let found = link_against_walk(tree, child, leaf);
            (if found { &FOUND } else { &MISSED }).fetch_add(1, Relaxed);
        });
    });
    assert!(FOUND.load(Relaxed) > 0 && MISSED.load(Relaxed) > 0, "the model must see both");
}
