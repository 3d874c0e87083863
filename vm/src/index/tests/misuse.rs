//! Calls that would break memory safety if they were carried out: each is refused.

use super::memory::*;
use crate::index::RangeIndex;
use crate::machine::testing::TestCpu;
use crate::sync::testing::Heap;
use crate::sync::{Rcu, ReadGuard};
use crate::units::{Vpn, VpnRange};
use core::sync::atomic::Ordering::Relaxed;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::String;

type Index<'m> = RangeIndex<'m, TestItem, TestCpu>;

/// The message of the panic in which the call ends.
#[track_caller]
fn refusal<R>(call: impl FnOnce() -> R) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else { panic!("the call was carried out") };
    let literal = payload.downcast_ref::<&str>().map(|&message| message.into());
    literal.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap()
}

/// Objects retired under one RCU are not kept in memory by read sections of another.
#[test]
fn a_lookup_under_another_rcus_guard_is_refused() {
    let [rcu, foreign] = [(); 2].map(|()| Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap());
    let store = HeapMemory::with_rcu(&rcu);
    let index = Index::new(&store);
    index.prepare(VpnRange::default(), [value(1, 2)], &store).unwrap().publish();
    type Lookup<'a> = &'a dyn Fn(&ReadGuard<'_, TestCpu>) -> bool;
    let lookups: [Lookup<'_>; 5] = [
        &|section| index.find(section, Vpn(1)).is_some(),
        &|section| index.find_cached(section, Vpn(1)).is_some(),
        &|section| index.at_or_after(section, Vpn(0)).is_some(),
        &|section| index.before(section, Vpn(2)).is_some(),
        &|section| index.iter(section, pages(0, 9)).next().is_some(),
    ];
    for lookup in lookups {
        assert!(lookup(&rcu.read()));
        assert!(refusal(|| lookup(&foreign.read())).contains("a read section of another RCU"));
    }
}

/// A node would be freed to a pool that it is not from.
#[test]
fn an_edit_with_the_memory_of_another_index_is_refused() {
    let [rcu, other] = [(); 2].map(|()| Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap());
    let (store, foreign) = (HeapMemory::with_rcu(&rcu), HeapMemory::with_rcu(&other));
    let index = Index::new(&store);
    let message = refusal(|| index.prepare(VpnRange::default(), [value(1, 2)], &foreign).map(drop));
    assert!(message.contains("an index is edited with its own memory"), "{message}");
    index.prepare(VpnRange::default(), [value(1, 2)], &store).unwrap().publish();
}

/// `Ranged` is a safe trait: an item may say anything of its range at each call. The index believes the first
/// answer, so no item is freed that can still be found.
#[test]
fn an_item_that_says_another_range_each_time_is_freed_when_it_is_removed() {
    for seed in 1..=40u64 {
        let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
        let store = HeapMemory { keeps_items: true, ..HeapMemory::at_once(&rcu) };
        let index = RangeIndex::<TestItem, TestCpu, 4>::new(&store);
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        for _ in 0..200 {
            let start = below(200);
            let old = pages(start, start + 1 + below(12));
            let lie = below(200);
            let liar = TestItem { lie: Some(pages(lie, lie + below(9))), ..value(old.start.0, old.end.0) };
            let new = (below(4) > 0).then_some(liar);
            index.prepare(old, new, &store).unwrap().publish();
            let section = rcu.read();
            for page in 0..220 {
                let found = index.find(&section, Vpn(page));
                assert!(found.is_none_or(|item| item.alive.load(Relaxed) == ALIVE), "a freed item is found");
            }
            assert_eq!(index.len(), store.items.get());
        }
        index.prepare(pages(0, u64::MAX), [], &store).unwrap().publish();
        assert_eq!((index.len(), store.items.get(), store.nodes.get()), (0, 0, 0));
    }
}

/// Lookups and later edits rely on the order of a leaf's items.
#[test]
fn new_items_that_are_empty_or_out_of_order_are_refused() {
    let rcu = Rcu::<TestCpu>::carve(&mut Heap, 1).unwrap();
    let store = HeapMemory::with_rcu(&rcu);
    let index = Index::new(&store);
    for new in [[value(5, 6), value(1, 2)], [value(1, 4), value(3, 6)], [value(1, 2), value(3, 3)]] {
        let message = refusal(|| index.prepare(VpnRange::default(), new, &store).map(drop));
        assert!(message.contains("items empty, out of order or beyond the end"), "{message}");
    }
    assert_eq!((store.items.get(), store.nodes.get()), (0, 0), "nothing is lost");
}
