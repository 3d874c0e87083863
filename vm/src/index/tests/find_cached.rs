//! A cached hit is never a removed item, nor an item of another index.

use super::memory::{ALIVE, HeapMemory, TestItem, pages, value};
use crate::index::RangeIndex;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::Rcu;
use crate::sync::testing::Heap;
use crate::units::{Vpn, VpnRange};
use core::sync::atomic::Ordering::*;

type Index<'m> = RangeIndex<'m, TestItem, TestCpu>;
/// The item that this CPU finds at the page, by way of its last hit. Checks that it is in memory.
fn look(index: &Index<'_>, rcu: &Rcu<TestCpu>, page: u64) -> Option<VpnRange> {
    let section = rcu.read();
    let found = index.find_cached(&section, Vpn(page))?;
    assert_eq!(found.alive.load(Relaxed), ALIVE, "an item that was freed");
    assert!(found.range.contains(Vpn(page)));
    Some(found.range)
}

fn put(index: &Index<'_>, store: &HeapMemory<'_>, old: VpnRange, new: Option<(u64, u64)>) {
    index.prepare(old, new.map(|(start, end)| value(start, end)), store).unwrap().publish();
}

#[cfg(not(loom))]
#[test]
fn a_cached_item_is_found_until_it_is_replaced() {
    let (machine, rcu) = (TestMachine::with_cpus(1, 1), Rcu::carve(&mut Heap, 1).unwrap());
    let store = HeapMemory::with_rcu(&rcu);
    let index = Index::new(&store);
    assert_eq!(look(&index, &rcu, 5), None);
    put(&index, &store, VpnRange::default(), Some((4, 9)));
    put(&index, &store, VpnRange::default(), Some((20, 30)));
    for page in [4, 8, 20, 25, 5, 6] {
        let expect = if page < 9 { pages(4, 9) } else { pages(20, 30) };
        assert_eq!(look(&index, &rcu, page), Some(expect));
    }
    for page in [3, 9, 19, 30] {
        assert_eq!(look(&index, &rcu, page), None, "page {page}");
    }
    put(&index, &store, pages(4, 9), Some((4, 7)));
    rcu.wait(&machine, &store);
    assert_eq!(look(&index, &rcu, 5), Some(pages(4, 7)));
    put(&index, &store, pages(4, 7), None);
    rcu.wait(&machine, &store);
    assert_eq!(look(&index, &rcu, 5), None);
    put(&index, &store, pages(0, 100), None);
    rcu.wait(&machine, &store);
    assert_eq!(store.items.get(), 0);
}

#[cfg(not(loom))]
#[test]
fn an_index_at_the_address_of_another_does_not_use_its_cached_hits() {
    let (machine, rcu) = (TestMachine::with_cpus(1, 1), Rcu::carve(&mut Heap, 1).unwrap());
    let store = HeapMemory::with_rcu(&rcu);
    for start in 0..5 {
        // The same address on the stack, and as many replacements.
        let index = Index::new(&store);
        put(&index, &store, VpnRange::default(), Some((start, start + 2)));
        assert_eq!(look(&index, &rcu, 1).is_some(), start <= 1, "start {start}");
        put(&index, &store, pages(0, 100), None);
        rcu.wait(&machine, &store);
    }
    assert_eq!(store.items.get(), 0);
}

#[cfg(loom)]
#[test]
fn loom_a_cached_item_against_its_replacement_and_free() {
    use crate::sync::testing::run_model;
    use crate::sync::testing::thread;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    static SEEN: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    run_model(2, || {
        let machine = TestMachine::with_cpus(1, 2);
        let rcu = Rcu::carve(&mut Heap, 2).unwrap();
        let index = Index::new(&HeapMemory::at_once(&rcu));
        let world = Arc::new((rcu, index));
        let store = HeapMemory::with_rcu(&world.0);
        put(&world.1, &store, VpnRange::default(), Some((4, 9)));
        // Touches the words of both CPUs before the thread is spawned, and fills the last hit of CPU 1.
        world.0.poll(&machine, &store);
        TestCpu::become_cpu(1);
        assert_eq!(look(&world.1, &world.0, 5), Some(pages(4, 9)));
        TestCpu::become_cpu(0);
        let reader = thread::spawn({
            let world = world.clone();
            move || {
                TestCpu::become_cpu(1);
                for _ in 0..2 {
                    let found = look(&world.1, &world.0, 5).expect("mapped before and after");
                    SEEN[usize::from(found == pages(4, 7))].fetch_add(1, Relaxed);
                }
            }
        });
        put(&world.1, &store, pages(4, 9), Some((4, 7)));
        (0..5).for_each(|_| world.0.poll(&machine, &store));
        reader.join().unwrap();
    });
    assert!(SEEN.iter().all(|seen| seen.load(Relaxed) > 0), "the model must see before and after: {SEEN:?}");
}
