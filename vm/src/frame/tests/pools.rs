//! Pools against a plain model.

use super::{Dice, memory};
use crate::frame::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{Rcu, RcuHead};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::vec::Vec;

/// 40 bytes: 102 in a slab.
struct Object {
    _head: RcuHead,
    value: [u64; 3],
}

type TestPool<'m, T> = SlabPool<'m, T, TestMachine>;

fn place(at: NonNull<MaybeUninit<Object>>, value: u64) -> NonNull<Object> {
    let at = at.cast::<Object>();
    // SAFETY: just allocated for such an object.
    unsafe { at.write(Object { _head: RcuHead::new(), value: [value; 3] }) };
    at
}

fn value(at: NonNull<Object>) -> u64 {
    // SAFETY: allocated and written by the test, and not freed.
    let object = unsafe { at.as_ref() };
    assert!(object.value.iter().all(|&value| value == object.value[0]), "torn: {:?}", object.value);
    object.value[0]
}

/// Frames that are allocated, those of pools themselves among them.
fn allocated(memory: &Memory<'_, TestMachine>) -> u64 {
    memory.check().unwrap().allocated
}

#[test]
fn objects_keep_their_bytes_while_others_are_allocated_and_freed() {
    for seed in 0..10 {
        let machine = TestMachine::with_cpus(256, 3);
        let memory = memory(&machine);
        let pool = TestPool::<Object>::new(&memory).unwrap();
        let before = allocated(&memory);
        let (mut dice, mut held) = (Dice(seed), BTreeMap::new());
        for step in 0..6000u64 {
            TestCpu::become_cpu(dice.roll(3) as u32);
            if dice.roll(100) < 35 + 30 * u64::from(step / 1500 % 2 == 0) {
                let object = place(pool.with(&memory).alloc().unwrap(), step);
                assert_eq!(object.addr().get() % align_of::<Object>(), 0);
                assert!(held.insert(object, step).is_none(), "allocated twice");
            } else if !held.is_empty() {
                let at = *held.keys().nth(dice.roll(held.len() as u64) as usize).unwrap();
                assert_eq!(Some(value(at)), held.remove(&at));
                // SAFETY: from this pool, and forgotten by the model.
                unsafe { pool.with(&memory).free(at) };
            }
        }
        held.iter().for_each(|(&at, &step)| assert_eq!(value(at), step));
        // SAFETY: as above.
        held.into_keys().for_each(|at| unsafe { pool.with(&memory).free(at) });
        pool.with(&memory).shrink();
        assert_eq!((pool.frames(), allocated(&memory)), (0, before));
    }
    TestCpu::become_cpu(0);
}

#[test]
fn a_pool_of_any_size_fills_its_slabs() {
    fn fill<T>(per_slab: u64) {
        let machine = TestMachine::new(64);
        let memory = memory(&machine);
        let pool = TestPool::<T>::new(&memory).unwrap();
        let held: Vec<_> =
            (0..3 * per_slab).map(|_| pool.with(&memory).alloc().unwrap().cast::<T>()).collect();
        assert!((3..=4).contains(&pool.frames()), "{} frames", pool.frames());
        // SAFETY: from this pool.
        held.into_iter().for_each(|at| unsafe { pool.with(&memory).free(at) });
        pool.with(&memory).shrink();
        assert_eq!(pool.frames(), 0);
        memory.check().unwrap();
    }
    fill::<u8>(512);
    fill::<Object>(102);
    fill::<[u64; 65]>(7);
    fill::<[u64; 512]>(1);
}

#[test]
fn one_empty_slab_is_kept_and_the_others_go_back() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let pool = TestPool::<[u64; 512]>::new(&memory).unwrap();
    let held: Vec<_> = (0..20 + CAPACITY).map_while(|_| pool.with(&memory).alloc()).collect();
    let frames = pool.frames();
    assert!(held.len() >= 30 && frames >= held.len() as u64);
    // SAFETY: from this pool.
    held.into_iter().for_each(|at| unsafe { pool.with(&memory).free(at.cast()) });
    assert!(pool.frames() <= CAPACITY as u64 + 1);
    pool.with(&memory).shrink();
    assert_eq!(pool.frames(), 0);
}

#[test]
fn an_object_is_found_in_another_cpus_stack_when_memory_is_gone() {
    let machine = TestMachine::with_cpus(32, 2);
    let memory = memory(&machine);
    let pool = TestPool::<[u64; 512]>::new(&memory).unwrap();
    let held: Vec<_> = core::iter::from_fn(|| pool.with(&memory).alloc()).collect();
    while memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve)).is_some() {}
    assert!(held.len() > 4);
    TestCpu::become_cpu(1);
    // SAFETY: from this pool.
    held.iter().for_each(|at| unsafe { pool.with(&memory).free(at.cast()) });
    TestCpu::become_cpu(0);
    let again: Vec<_> = core::iter::from_fn(|| pool.with(&memory).alloc()).collect();
    assert_eq!(again.len(), held.len());
}

#[test]
fn every_allocation_of_a_pool_can_be_made_to_fail() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let pool = TestPool::<Object>::new(&memory).unwrap();
    for nth in 1..8 {
        memory.plan_mishap(nth);
        let held: Vec<_> = (0..8).map(|_| pool.with(&memory).alloc()).collect();
        assert!(!memory.is_mishap_planned());
        assert_eq!(held.iter().filter(|at| at.is_none()).count(), 1);
        // SAFETY: from this pool.
        held.into_iter().flatten().for_each(|at| unsafe { pool.with(&memory).free(at.cast()) });
    }
    memory.plan_mishap(1);
    assert!(TestPool::<u64>::new(&memory).is_none());
    memory.check().unwrap();
}

#[test]
fn retired_objects_and_tables_come_back_after_the_readers() {
    let machine = TestMachine::new(128);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let pool = TestPool::<Object>::new(&memory).unwrap();
    let before = allocated(&memory);
    let (table, other) =
        (memory.alloc_table(Priority::Normal).unwrap(), memory.alloc_frame(AllocRequest::DIRTY).unwrap());
    let table = table.attach(&memory);
    for step in 0..300 {
        let object = place(pool.with(&memory).alloc().unwrap(), step);
        // SAFETY: only this test uses the object; its head is unused.
        unsafe { pool.with(&memory).retire(&rcu, object.cast()) };
    }
    let section = rcu.read();
    // SAFETY: nothing points to it.
    let detached = unsafe { memory.detach_table(table, Init::Dirty, Some(rcu.id())) }.unwrap();
    drop(section);
    detached.retire(&rcu);
    assert_eq!(memory.meta(table).unwrap().state().kind(), Kind::Table);
    drop(other);
    rcu.wait(&machine, &memory);
    assert_eq!(memory.meta(table).unwrap().state().kind(), Kind::Cached);
    pool.with(&memory).shrink();
    assert_eq!((rcu.garbage(), pool.frames(), allocated(&memory)), (0, 0, before));
}

#[test]
fn a_table_retired_as_zero_is_not_zeroed_again() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    for (init, expected) in [(Init::Zeroed, 7), (Init::Dirty, 0)] {
        let table = memory.alloc_table(Priority::Normal).unwrap().attach(&memory);
        // Marked zero though it is not: the bytes stay, so the allocator zeroed nothing.
        memory.word(table, 3).store(7, Relaxed);
        // SAFETY: nothing points to it; what its words hold is what this test is about.
        unsafe { memory.detach_table(table, init, Some(rcu.id())) }.unwrap().retire(&rcu);
        rcu.wait(&machine, &memory);
        let again = memory.alloc_table(Priority::Normal).unwrap().attach(&memory);
        assert_eq!((again, memory.word(again, 3).load(Relaxed)), (table, expected));
        // SAFETY: nothing points to it.
        unsafe { memory.detach_table(again, Init::Dirty, None).unwrap().free_unwalked() };
    }
}

#[test]
#[should_panic(expected = "a table is retired to another RCU than its readers'")]
fn a_table_is_retired_to_the_rcu_of_its_readers() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let rcu = || Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let (rcu, foreign) = (rcu(), rcu());
    let table = memory.alloc_table(Priority::Normal).unwrap().attach(&memory);
    // SAFETY: nothing points to it.
    unsafe { memory.detach_table(table, Init::Dirty, Some(rcu.id())) }.unwrap().retire(&foreign);
}

#[test]
fn threads_share_a_pool() {
    let machine = TestMachine::with_cpus(256, 4);
    let memory = memory(&machine);
    let pool = TestPool::<Object>::new(&memory).unwrap();
    let work = |cpu: u32| {
        machine.run_as(cpu);
        let (mut dice, mut held) = (Dice(cpu.into()), Vec::new());
        for step in 0..15_000u64 {
            if dice.roll(100) < 40 + 25 * u64::from(step / 3000 % 2 == 0) {
                let tag = u64::from(cpu) << 32 | step;
                held.extend(pool.with(&memory).alloc().map(|at| (place(at, tag), tag)));
            } else if !held.is_empty() {
                let (at, tag) = held.swap_remove(dice.roll(held.len() as u64) as usize);
                assert_eq!(value(at), tag);
                // SAFETY: from this pool, and forgotten here.
                unsafe { pool.with(&memory).free(at) };
            }
        }
        // SAFETY: as above.
        held.into_iter().for_each(|(at, _)| unsafe { pool.with(&memory).free(at) });
    };
    std::thread::scope(|scope| (0..4).for_each(|cpu| drop(scope.spawn(move || work(cpu)))));
    pool.with(&memory).shrink();
    assert_eq!(pool.frames(), 0);
    memory.check().unwrap();
}

#[test]
fn memory_of_the_boot_allocator_is_contiguous() {
    use crate::sync::Carve;
    use core::alloc::Layout;
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let mut allocator = memory.boot_allocator();
    let layout = |size, align| Layout::from_size_align(size, align).unwrap();
    let mut start = |size, align| allocator.carve(layout(size, align)).map(|bytes| bytes.as_ptr().addr());
    let (a, b) = (start(100, 64).unwrap(), start(100, 64).unwrap());
    assert_eq!(b - a, 128);
    assert!(start(9 * 4096, 4096).is_some());
    assert_eq!(start(1 << 40, 8), None);
    assert_eq!(memory.check().unwrap().allocated, 1 + 1 + 16);
}

/// Its objects would be addresses of the other machine.
#[test]
#[should_panic = "a pool is used with its own memory"]
fn a_pool_is_not_used_with_another_memory() {
    let [machine, other] = [(); 2].map(|()| TestMachine::new(64));
    let (memory, other) = (memory(&machine), memory(&other));
    let pool = TestPool::<Object>::new(&memory).unwrap();
    assert!(pool.with(&memory).alloc().is_some());
    pool.with(&other);
}

/// A lookup would not be waited for.
#[test]
#[should_panic = "the pools are for indexes of another RCU"]
fn pools_of_an_index_are_not_used_with_another_rcu() {
    let machine = TestMachine::new(64);
    let memory = memory(&machine);
    let [rcu, other] = [(); 2].map(|()| Rcu::carve(&mut memory.boot_allocator(), 1).unwrap());
    let pools = IndexPools::<u64, _>::new(&memory, &rcu).unwrap();
    let _ = pools.allocator(&memory, &rcu);
    let _ = pools.allocator(&memory, &other);
}

/// The objects that wait lie in the memory that they were retired for.
#[test]
#[should_panic = "the garbage is another reclaimer's"]
fn garbage_is_not_freed_to_another_memory() {
    let [machine, other] = [(); 2].map(|()| TestMachine::new(64));
    let (memory, other_memory) = (memory(&machine), memory(&other));
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let pool = TestPool::<Object>::new(&memory).unwrap();
    let object = place(pool.with(&memory).alloc().unwrap(), 1);
    // SAFETY: only this test uses the object; its head is unused.
    unsafe { pool.with(&memory).retire(&rcu, object.cast()) };
    rcu.wait(&other, &other_memory);
}
