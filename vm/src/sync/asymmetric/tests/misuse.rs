//! Calls that would break the protocol, were they not refused.

use super::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::handler::as_handler;
use crate::sync::lockdep::table;
use crate::sync::testing::Heap;
use crate::sync::{PerCpu, RawSpinLock};
use crate::units::Level;
use std::format;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Cell = AsymmetricCell<u32, TestCpu>;

fn cells(nr_cpus: u32) -> PerCpu<'static, Cell, TestCpu> {
    PerCpu::carve(&mut Heap, nr_cpus, |_| AsymmetricCell::new(0)).unwrap()
}

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn ownership_is_kept_while_one_of_the_locks_is_held() {
    let machine = TestMachine::with_cpus(1, 2);
    let (locks, lock) = (AsymmetricLocks::<TestCpu>::new(), RawSpinLock::new());
    let held = locks.lock(&lock, table(Level::Pte), &machine);
    locks.release_ownership();
    assert_eq!(format!("{locks:?}"), "locks owned by CPU 0");
    drop(held);
    locks.release_ownership();
    assert_eq!(format!("{locks:?}"), "locks without an owner yet");
}

/// Two CPUs of one number are two CPUs: both would hold a lock of the set.
#[test]
fn a_cpu_of_another_machine_does_not_own_the_locks() {
    let machine = TestMachine::with_cpus(1, 2);
    let (locks, lock) = (AsymmetricLocks::<TestCpu>::new(), RawSpinLock::new());
    drop(locks.lock(&lock, table(Level::Pte), &machine));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            TestCpu::become_cpu_of_machine(2);
            locks.release_ownership();
            assert_eq!(format!("{locks:?}"), "locks owned by CPU 0");
            assert!(panics(|| drop(locks.lock(&lock, table(Level::Pte), &machine))), "no barrier reaches it");
            assert_eq!(format!("{locks:?}"), "locks owned by CPU 0");
        });
    });
    drop(locks.lock(&lock, table(Level::Pte), &machine));
}

/// It may have come after the owner has looked at the ownership, and before it counts the lock that it takes.
#[test]
fn a_handler_of_interrupts_does_not_release_ownership() {
    let machine = TestMachine::with_cpus(1, 1);
    let (locks, lock) = (AsymmetricLocks::<TestCpu>::new(), RawSpinLock::new());
    drop(locks.lock(&lock, table(Level::Pte), &machine));
    let release = || panics(|| locks.release_ownership());
    let nested = || {
        as_handler::<TestCpu, _>(|| ());
        release()
    };
    assert!(as_handler::<TestCpu, _>(nested));
    assert_eq!(format!("{locks:?}"), "locks owned by CPU 0");
    assert!(!release());
    assert_eq!(format!("{locks:?}"), "locks without an owner yet");
}

#[test]
fn a_lock_below_one_of_another_set_is_refused() {
    let machine = TestMachine::with_cpus(1, 2);
    let (set, other) = (AsymmetricLocks::<TestCpu>::new(), AsymmetricLocks::<TestCpu>::unowned());
    let [above, below] = [const { RawSpinLock::new() }; 2];
    drop(set.lock(&below, table(Level::Pte), &machine));
    let foreign = other.lock(&above, table(Level::Pmd), &machine);
    assert!(panics(|| set.lock_below(&foreign, &below, table(Level::Pte))));
    drop(other.lock_below(&foreign, &below, table(Level::Pte)));
}

/// The owner's locks have no words: without the check it would have both, or one of them twice.
#[test]
fn an_owner_that_holds_one_of_the_locks_is_refused_another_but_below_it() {
    let machine = TestMachine::with_cpus(1, 1);
    let locks = AsymmetricLocks::<TestCpu>::new();
    let [above, below] = [const { RawSpinLock::new() }; 2];
    let held = locks.lock(&above, table(Level::Pmd), &machine);
    assert!(panics(|| locks.lock(&below, table(Level::Pte), &machine)));
    drop(locks.lock_below(&held, &below, table(Level::Pte)));
    drop(held);
    drop(locks.lock(&below, table(Level::Pte), &machine));
}

#[test]
fn a_second_revoker_is_refused() {
    let machine = TestMachine::with_cpus(1, 1);
    let cells = cells(1);
    let nested = |_: &_, value: &mut u32| {
        *value += 1;
        assert!(panics(|| revoke_all(&cells, &machine, |cell| cell, |_, value| *value += 1, || ())));
    };
    revoke_all(&cells, &machine, |cell| cell, nested, || ());
    assert_eq!(Cell::with(&cells.get_cpu(), |cell| cell, |value| *value), Some(1));
}

/// It would wait for itself.
#[test]
fn a_cpu_that_uses_its_value_is_refused_as_a_revoker() {
    let machine = TestMachine::with_cpus(1, 2);
    let cells = cells(2);
    let own = cells.get_cpu();
    let revoke = || panics(|| revoke_all(&cells, &machine, |cell| cell, |_, _| (), || ()));
    assert_eq!(Cell::with(&own, |cell| cell, |_| revoke()), Some(true));
    assert!(!revoke());
}

#[test]
fn a_cpu_of_another_machine_is_refused_as_a_revoker() {
    let machine = TestMachine::with_cpus(1, 1);
    let cells = cells(1);
    drop(cells.get_cpu());
    let revoke = || panics(|| revoke_all(&cells, &machine, |cell| cell, |_, _| (), || ()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            TestCpu::become_cpu_of_machine(2);
            assert!(revoke());
        });
    });
    assert!(!revoke());
}

#[test]
fn a_cell_that_is_not_of_the_slot_is_refused() {
    static SHARED: Cell = AsymmetricCell::new(0);
    let machine = TestMachine::with_cpus(1, 1);
    let cells = cells(1);
    assert!(panics(|| Cell::with(&cells.get_cpu(), |_| &SHARED, |value| *value)));
    assert!(panics(|| revoke_all(&cells, &machine, |_| &SHARED, |_, _| (), || ())));
    assert_eq!(SHARED.revoked.load(Relaxed), 0);
}

#[test]
fn a_value_whose_user_unwinds_can_be_used_again() {
    let cells = cells(1);
    let own = cells.get_cpu();
    assert!(panics(|| Cell::with(&own, |cell| cell, |_| panic!("in use"))));
    assert_eq!(Cell::with(&own, |cell| cell, |value| *value), Some(0));
}
