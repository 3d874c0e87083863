//! A walk without a lock against a CPU that links a table.

use crate::frame::{BootMap, Init, Memory, Priority, Region, RegionKind, TableFrame};
use crate::machine::testing::{TestCpu, TestMachine, TwoLevels, with_leaked};
use crate::machine::{Entry, Format, Leaf};
use crate::sync::atomic::{Ordering::Relaxed, with_bare_light_fences};
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::sync::{Rcu, refill_zeros};
use crate::table::{PageTable, Table};
use crate::units::{Level, NodeId, PAGE_SIZE, Rights};
use core::sync::atomic::AtomicUsize;
use std::boxed::Box;

pub(super) type Machine = TestMachine<TwoLevels>;
pub(super) type Tree = PageTable<'static, Machine>;
type NewTree = fn(
    &'static Memory<'static, Machine>,
    TableFrame<'static, Machine>,
    &'static Rcu<'static, TestCpu>,
) -> Tree;

const SLOT: usize = 3;

/// Number of executions in which the walker found the table, and in which it did not.
#[derive(Default)]
struct Seen {
    found: AtomicUsize,
    missed: AtomicUsize,
}

/// CPU 0 fills the table and links it, CPU 1 follows the entry into the table. Returns whether it was there.
///
/// CPU 1 wants no lock, so no CPU revokes CPU 0's ownership and no barrier is executed: CPU 0 passes no
/// fence.
fn link_against_walk(tree: &'static Tree, child: TableFrame<'static, Machine>, leaf: Entry) -> bool {
    let walker = thread::spawn(move || {
        let Entry::Table(pfn) = tree.top().entry(SLOT) else { return false };
        // SAFETY: the table stays linked.
        let table = unsafe { Table::at(tree, pfn, Level::Pte) };
        assert_eq!(table.entry(SLOT), leaf, "a linked table shows what it held before");
        true
    });
    let word = <Machine as crate::machine::Machine>::Format::encode(leaf, Level::Pte);
    with_bare_light_fences(|| {
        tree.memory.word(child.pfn(), SLOT).store(word, Relaxed);
        tree.top().lock().unwrap().link(SLOT, child).unwrap();
    });
    walker.join().unwrap()
}

pub(super) fn with_tree(
    new: NewTree,
    f: impl FnOnce(&'static Tree, &'static Memory<'static, Machine>, &'static Rcu<'static, TestCpu>),
) {
    with_leaked(Machine::of_format(96, 2), |machine| {
        let frames = machine.frames();
        let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE_SIZE as u64);
        let region = Region { start, len_bytes, kind: RegionKind::Usable(Init::Zeroed), node: NodeId(0) };
        let map = BootMap::new(&[region]).unwrap();
        with_leaked(Memory::new(machine, map).unwrap(), |memory| {
            let root = memory.alloc_table(Priority::Normal).unwrap();
            let rcu = Rcu::carve(&mut memory.boot_allocator(), 2).unwrap();
            with_leaked(rcu, |rcu| with_leaked(new(memory, root, rcu), |tree| f(tree, memory, rcu)));
        });
    });
}

fn explore(new: NewTree) {
    let seen: &'static Seen = Box::leak(Box::default());
    run_model(3, move || {
        with_tree(new, |tree, memory, _| {
            let child = memory.alloc_table(Priority::Normal).unwrap();
            let pfn = memory.zero_frame();
            let leaf = Entry::Leaf(Leaf::new(pfn, Rights::READ).used(false));
            refill_zeros();
            let found = link_against_walk(tree, child, leaf);
            (if found { &seen.found } else { &seen.missed }).fetch_add(1, Relaxed);
        });
    });
    assert!(seen.found.load(Relaxed) > 0 && seen.missed.load(Relaxed) > 0, "the model must see both");
}

#[test]
fn loom_a_table_is_filled_before_a_walk_finds_it() {
    explore(PageTable::new);
}

#[test]
fn loom_a_table_is_filled_before_a_walk_finds_it_where_no_cpu_owns_the_locks() {
    explore(|memory, root, _| PageTable::of_all_cpus(memory, root));
}
