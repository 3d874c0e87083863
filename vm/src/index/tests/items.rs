//! Items of the index: none is leaked, none is freed early.

use super::memory::{ALIVE, HeapMemory, TestItem, pages, value};
use crate::index::{NoMemory, RangeIndex};
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::Rcu;
use crate::sync::testing::Heap;
use crate::units::{Vpn, VpnRange};
use core::sync::atomic::Ordering::*;
use std::vec::Vec;

type Index<'m> = RangeIndex<'m, TestItem, TestCpu>;

fn ranges(index: &Index<'_>, rcu: &Rcu<TestCpu>) -> Vec<(u64, u64)> {
    let section = rcu.read();
    index.iter(&section, pages(0, 1 << 40)).map(|item| (item.range.start.0, item.range.end.0)).collect()
}

/// Sixty items of two pages, four pages apart.
fn fill(index: &Index<'_>, store: &HeapMemory<'_>) {
    for at in (0..240).step_by(4) {
        index.prepare(VpnRange::default(), [value(at, at + 2)], store).unwrap().publish();
    }
}

fn empty(index: &Index<'_>, store: &HeapMemory<'_>, machine: &TestMachine) {
    index.prepare(pages(0, 1 << 40), [], store).unwrap().publish();
    store.rcu.unwrap().wait(machine, store);
    assert!(index.is_empty());
    assert_eq!((index.len(), store.items.get(), store.nodes.get()), (0, 0, 0), "nothing is lost");
}

#[test]
fn items_are_counted_and_all_memory_is_freed() {
    let (machine, rcu) = (TestMachine::with_cpus(1, 1), Rcu::carve(&mut Heap, 1).unwrap());
    let store = HeapMemory::with_rcu(&rcu);
    let index = Index::new(&store);
    fill(&index, &store);
    assert_eq!((index.len(), store.items.get()), (60, 60));
    let replacement = index.prepare(pages(40, 99), [value(40, 60), value(60, 70), value(80, 99)], &store);
    replacement.unwrap().publish();
    assert_eq!(index.len(), 60 - 15 + 3);
    assert_eq!(index.len(), index.check(&rcu.read()).unwrap().items);
    assert_eq!(ranges(&index, &rcu)[9..14], [(36, 38), (40, 60), (60, 70), (80, 99), (100, 102)]);
    rcu.wait(&machine, &store);
    assert_eq!(store.items.get(), index.len(), "replaced items are freed");
    empty(&index, &store, &machine);
}

#[test]
fn a_replaced_item_stays_for_its_reader() {
    let (machine, rcu) = (TestMachine::with_cpus(1, 1), Rcu::carve(&mut Heap, 1).unwrap());
    let store = HeapMemory::with_rcu(&rcu);
    let index = Index::new(&store);
    fill(&index, &store);
    let section = rcu.read();
    let found = index.find(&section, Vpn(41)).unwrap();
    index.prepare(pages(0, 120), [value(3, 80)], &store).unwrap().publish();
    for _ in 0..10 {
        rcu.poll(&machine, &store);
    }
    assert_eq!((found.alive.load(Relaxed), found.range), (ALIVE, pages(40, 42)));
    assert_eq!(index.find(&section, Vpn(41)).unwrap().range, pages(3, 80));
    drop(section);
    rcu.wait(&machine, &store);
    assert_eq!(store.items.get(), index.len());
    empty(&index, &store, &machine);
}

#[test]
fn a_failed_replacement_changes_nothing_and_leaks_nothing() {
    let (machine, rcu) = (TestMachine::with_cpus(1, 1), Rcu::carve(&mut Heap, 1).unwrap());
    let store = HeapMemory::with_rcu(&rcu);
    let index = Index::new(&store);
    fill(&index, &store);
    rcu.wait(&machine, &store);
    let before = (ranges(&index, &rcu), store.items.get(), store.nodes.get());
    let mut refused = 0;
    for left in 0.. {
        store.left.set(Some(left));
        let prepared =
            index.prepare(pages(100, 121), [value(100, 101), value(104, 110), value(112, 121)], &store);
        store.left.set(None);
        match prepared {
            Ok(replacement) => {
                drop(replacement);
                break;
            }
            Err(NoMemory) => refused += 1,
        }
        assert_eq!((ranges(&index, &rcu), store.items.get(), store.nodes.get()), before);
    }
    assert!(refused >= 4, "three items and at least one node may fail");
    assert_eq!(
        (ranges(&index, &rcu), store.items.get(), store.nodes.get()),
        before,
        "dropped, it changes nothing"
    );
    empty(&index, &store, &machine);
}
