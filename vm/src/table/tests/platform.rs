//! Slots of the root that cover no user address: they are the platform's.

use super::entries::memory;
use crate::frame::{Memory, Priority, TableFrame};
use crate::machine::testing::{TestCpu, TestMachine};
use crate::machine::{Entry, LeafKind};
use crate::sync::Rcu;
use crate::table::{LeafBits, PageTable, SlotMarker, walk, walk_cached};
use crate::units::{Level, Rights, Vpn};

/// The first slot that covers no user address, and one in the middle of those.
const SLOTS: [usize; 2] = [Level::ENTRIES / 2, 400];

fn page(slot: usize) -> Vpn {
    Vpn(slot as u64 * Level::P4d.entry_pages() + 5)
}

fn table<'m>(memory: &'m Memory<'m, TestMachine>) -> TableFrame<'m, TestMachine> {
    memory.alloc_table(Priority::Normal).unwrap()
}

/// Calls `f` with a tree like that of a space.
pub fn with_tree(f: impl FnOnce(&PageTable<'_, TestMachine>, &Memory<'_, TestMachine>, &Rcu<'_, TestCpu>)) {
    let machine = TestMachine::new(100);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let tree = PageTable::new(&memory, table(&memory), &rcu);
    f(&tree, &memory, &rcu);
}

#[test]
#[should_panic = "a slot of the platform's"]
fn a_table_is_not_linked_in_a_slot_of_the_platforms() {
    with_tree(|tree, memory, _| {
        let linked = tree.top().lock().unwrap().link(SLOTS[0], table(memory));
        panic!("linked: {}", linked.is_ok());
    });
}

#[test]
#[should_panic = "a slot of the platform's"]
fn a_slot_of_the_platforms_is_not_marked() {
    with_tree(|tree, _, _| assert!(!tree.top().lock().unwrap().mark(SLOTS[1], SlotMarker::Busy)));
}

#[test]
fn what_the_platform_has_put_into_its_slots_is_out_of_reach() {
    with_tree(|tree, memory, rcu| {
        let platform = PageTable::of_all_cpus(memory, table(memory));
        let bits = LeafBits::new(Rights::all()).used(true);
        let mut root = tree.top().lock().unwrap();
        // SAFETY: no CPU loads the root. The tables below are the platform's, which stay.
        unsafe { root.set_entry(SLOTS[0], Entry::Table(platform.root())) };
        // SAFETY: as above.
        unsafe { root.set_entry(SLOTS[1], Entry::Leaf(bits.leaf(memory.zero_frame(), LeafKind::NOT_OWNED))) };
        assert!(root.child(SLOTS[0]).is_none());
        assert!(root.adjust(SLOTS[1], |_| Some(bits)).is_none());
        drop(root);
        let reading = rcu.read();
        assert!(tree.top().child(SLOTS[0], &reading).is_none());
        for slot in SLOTS {
            for found in
                [walk(tree, page(slot), Level::Pte, &reading), walk_cached(tree, page(slot), &reading)]
            {
                assert_eq!((found.table.pfn(), found.entry()), (tree.root(), Entry::Absent));
            }
        }
    });
}

#[test]
fn a_table_is_not_linked_over_another_and_stays_with_its_owner() {
    with_tree(|tree, memory, _| {
        let mut root = tree.top().lock().unwrap();
        assert!(root.link(0, table(memory)).is_ok());
        let (before, second) = (root.entry(0), table(memory));
        let pfn = second.pfn();
        let refused = root.link(0, second).expect_err("a table is there");
        assert_eq!((refused.pfn(), root.entry(0)), (pfn, before));
    });
}

#[test]
fn in_a_tree_of_its_own_the_platform_links_tables_anywhere() {
    let machine = TestMachine::new(100);
    let memory = memory(&machine);
    let tree = PageTable::of_all_cpus(&memory, table(&memory));
    let mut root = tree.top().lock().unwrap();
    for slot in SLOTS {
        assert!(root.link(slot, table(&memory)).is_ok());
        assert!(root.child(slot).is_some_and(|child| child.lock_below(&root).is_some()));
    }
}
