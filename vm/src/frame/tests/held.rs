//! Values that are held: what ends them, when, and how often.

use super::*;
use crate::frame::tests::{Dice, memory};
use crate::machine::testing::TestMachine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::vec::Vec;

/// A value that counts its ends in a word of the test's.
struct Value(Arc<AtomicU64>);

impl Drop for Value {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

type TestRegistry<'m> = HeldRegistry<'m, Value, TestMachine>;

fn number(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}

fn insert<'r, 'm>(
    registry: &'r TestRegistry<'m>,
    nth: u64,
) -> (Hold<'r, 'm, Value, TestMachine>, Arc<AtomicU64>) {
    let ends = Arc::new(AtomicU64::new(0));
    (registry.insert(number(nth), Value(ends.clone())).ok().unwrap(), ends)
}

#[test]
fn the_last_hold_ends_a_value_and_no_other_does() {
    let machine = TestMachine::new(2000);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    let allocated = || {
        rcu.wait(&machine, &memory);
        memory.shrink_slab_pools();
        memory.drain();
        memory.check().unwrap().allocated
    };
    let before = allocated();
    let (mut dice, mut next) = (Dice(1), 1);
    let mut holds: Vec<(u64, Hold<'_, '_, Value, TestMachine>)> = Vec::new();
    // Number of holds and the count of ends, of all values that there were.
    let mut model: BTreeMap<u64, (u32, Arc<AtomicU64>)> = BTreeMap::new();
    for _ in 0..4000 {
        match dice.roll(6) {
            0 | 1 => {
                let (hold, ends) = insert(&registry, next);
                holds.push((next, hold));
                model.insert(next, (1, ends));
                next += 1;
            }
            2 | 3 => {
                let wanted = 1 + dice.roll(next);
                let found = registry.hold(number(wanted), &rcu.read());
                let lives = model.get_mut(&wanted).filter(|(holds, _)| *holds > 0);
                assert_eq!(found.is_some(), lives.is_some());
                if let (Some(hold), Some((count, _))) = (found, lives) {
                    holds.push((wanted, hold));
                    *count += 1;
                }
            }
            _ if !holds.is_empty() => {
                let (nth, hold) = holds.swap_remove(dice.roll(holds.len() as u64) as usize);
                let (count, ends) = model.get_mut(&nth).unwrap();
                assert_eq!((hold.holds_racy(), hold.0.load(SeqCst)), (*count, 0));
                drop(hold);
                *count -= 1;
                assert_eq!(ends.load(SeqCst), u64::from(*count == 0));
            }
            _ => {}
        }
    }
    assert!(model.values().any(|(count, _)| *count == 0), "no value has ended before the end");
    assert!(holds.len() > 3, "no value is left to end");
    drop(holds);
    assert!(model.values().all(|(_, ends)| ends.load(SeqCst) == 1));
    assert_eq!(allocated(), before);
}

#[test]
fn a_value_without_memory_comes_back_whole() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    let ends = Arc::new(AtomicU64::new(0));
    memory.plan_mishap(1);
    let Err(value) = registry.insert(number(1), Value(ends.clone())) else { panic!("there was memory") };
    assert_eq!(ends.load(SeqCst), 0);
    drop(registry.insert(number(1), value));
    assert_eq!(ends.load(SeqCst), 1);
}

#[test]
fn a_value_is_held_no_more_than_can_be_counted() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    let (hold, ends) = insert(&registry, 1);
    hold.held().holds.store(MAX_HOLDS, Relaxed);
    assert!(hold.try_clone().is_none());
    assert!(registry.hold(number(1), &rcu.read()).is_none());
    hold.held().holds.store(MAX_HOLDS - 1, Relaxed);
    drop(hold.try_clone().unwrap());
    hold.held().holds.store(1, Relaxed);
    drop(hold);
    assert_eq!(ends.load(SeqCst), 1);
}

#[test]
fn a_value_whose_end_panics_is_not_reached_again() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("at its end");
        }
    }
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let registry = HeldRegistry::<Panics, TestMachine>::new(&memory, &rcu).unwrap();
    let hold = registry.insert(number(1), Panics).ok().unwrap();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(hold))).is_err());
    assert!(registry.hold(number(1), &rcu.read()).is_none());
}

/// A number that is used twice is a mistake of what gives numbers: what is found by it may be the wrong
/// value, but each hold keeps its own.
#[test]
fn a_hold_keeps_its_value_though_another_had_the_same_number() {
    let machine = TestMachine::new(2000);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    let ((first, first_ends), (second, second_ends)) = (insert(&registry, 7), insert(&registry, 7));
    drop(first);
    assert_eq!((first_ends.load(SeqCst), second_ends.load(SeqCst)), (1, 0));
    let found = registry.hold(number(7), &rcu.read()).expect("it has a hold, and is in its registry");
    assert_eq!((second.holds_racy(), found.0.load(SeqCst)), (2, 0));
    drop((second, found));
    assert_eq!(second_ends.load(SeqCst), 1);
    assert!(registry.hold(number(7), &rcu.read()).is_none());
}
