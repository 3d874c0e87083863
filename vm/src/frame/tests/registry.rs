//! The registry against a plain map, and what a reader that has found a value keeps.

use super::*;
use crate::frame::tests::{Dice, memory};
use crate::machine::testing::TestMachine;
use crate::sync::atomic::AtomicU64;
use std::collections::BTreeMap;
use std::sync::Barrier;

/// A value that its number tells.
struct Value(AtomicU64<<TestMachine as Machine>::Cpu>);

type TestRegistry<'m> = Registry<'m, Value, TestMachine>;

fn number(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}

fn value(number: u64) -> Value {
    Value(AtomicU64::new(number * 3))
}

fn allocated(memory: &Memory<'_, TestMachine>) -> u64 {
    memory.drain();
    memory.check().unwrap().allocated
}

#[test]
fn numbers_find_their_values_as_in_a_map() {
    let machine = TestMachine::new(2000);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    assert_eq!(registry.buckets.len(), 8, "lists get longer than one");
    let (mut dice, mut model, mut next) = (Dice(1), BTreeMap::new(), 1);
    let before = allocated(&memory);
    for _ in 0..4000 {
        if dice.roll(100) < 52 {
            assert!(registry.insert(&memory, number(next), value(next)).is_ok());
            model.insert(next, next * 3);
            // As CPUs of 64 give them.
            next += 64;
        } else {
            let wanted = 1 + 64 * dice.roll(next / 64 + 1);
            let removed = registry.remove(&memory, &rcu, number(wanted));
            assert_eq!(removed, model.remove(&wanted).is_some());
        }
        let wanted = 1 + 64 * dice.roll(next / 64 + 1);
        let reading = rcu.read();
        let found = registry.get(number(wanted), &reading).map(|value| value.0.load(Relaxed));
        assert_eq!(found, model.get(&wanted).copied());
    }
    assert!(model.len() > 50);
    for left in model.into_keys() {
        assert!(registry.remove(&memory, &rcu, number(left)));
    }
    rcu.wait(&machine, &memory);
    memory.shrink_slab_pools();
    assert_eq!(allocated(&memory), before);
}

#[test]
fn a_value_stays_as_long_as_the_reader_that_found_it() {
    let machine = TestMachine::with_cpus(256, 2);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 2).unwrap();
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    assert!(registry.insert(&memory, number(1), value(1)).is_ok());
    let (found, replaced) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            machine.run_as(1);
            found.wait();
            assert!(registry.remove(&memory, &rcu, number(1)));
            (2..40).for_each(|at| assert!(registry.insert(&memory, number(at), value(at)).is_ok()));
            replaced.wait();
        });
        machine.run_as(0);
        let reading = rcu.read();
        let value = registry.get(number(1), &reading).unwrap();
        found.wait();
        replaced.wait();
        assert_eq!(value.0.load(Relaxed), 3, "its memory is used anew");
        assert!(registry.get(number(1), &reading).is_none());
    });
}

#[test]
fn a_registry_without_memory_refuses_a_value() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    memory.plan_mishap(1);
    assert!(registry.insert(&memory, number(1), value(1)).is_err());
    assert!(registry.get(number(1), &rcu.read()).is_none());
    assert!(registry.insert(&memory, number(1), value(1)).is_ok());
    assert!(registry.get(number(1), &rcu.read()).is_some());
}

#[test]
#[should_panic = "a read section of another RCU"]
fn a_value_is_not_found_in_a_section_of_another_rcu() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let [rcu, other] = [(); 2].map(|()| Rcu::carve(&mut memory.boot_allocator(), 1).unwrap());
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    registry.get(number(1), &other.read());
}

#[test]
#[should_panic = "a registry that is read under another RCU"]
fn a_value_is_not_retired_to_another_rcu() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let [rcu, other] = [(); 2].map(|()| Rcu::carve(&mut memory.boot_allocator(), 1).unwrap());
    let registry = TestRegistry::new(&memory, &rcu).unwrap();
    assert!(registry.insert(&memory, number(1), value(1)).is_ok());
    registry.remove(&memory, &other, number(1));
}
