//! A reader, a CPU that retires, a CPU that advances: all executions with a few preemptions.
//!
//! The object's value is loom's cell: loom fails when reclaiming it is not ordered after the reader's last
//! access.

use super::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::RcuSlot;
use crate::sync::atomic::with_bare_light_fences;
use crate::sync::testing::{Heap, run_model};
use core::cell::Cell;
use loom::cell::UnsafeCell;
use loom::sync::atomic::fence;
use loom::thread;
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

const GONE: u32 = 0xdead;

#[repr(C)]
struct Object {
    head: RcuHead,
    value: UnsafeCell<u32>,
}

struct World {
    rcu: Rcu<'static, TestCpu>,
    /// The one of all bins.
    bin: UniqueId,
    slot: RcuSlot<Object, TestCpu>,
}

/// Poisons reclaimed objects and counts them.
struct Bin(Cell<usize>, UniqueId);

// SAFETY: objects of the models are freed at their end.
unsafe impl Reclaim for Bin {
    fn id(&self) -> UniqueId {
        self.1
    }

    unsafe fn reclaim(&self, _tag: usize, object: NonNull<RcuHead>) {
        // SAFETY: the head is the first field of an object, which the test frees at its end.
        let object = unsafe { object.cast::<Object>().as_ref() };
        // SAFETY: reclaimed, so no other thread has it: what loom is here to check.
        object.value.with_mut(|value| unsafe { *value = GONE });
        self.0.set(self.0.get() + 1);
    }
}

impl World {
    fn new(nr_cpus: u32) -> (Arc<Self>, Arc<Object>) {
        let object = Arc::new(Object { head: RcuHead::new(), value: UnsafeCell::new(7) });
        // In its place before any word is touched, and touched before the threads are spawned: shadows go by
        // address.
        let rcu = Rcu::carve(&mut Heap, nr_cpus).unwrap();
        let world = Arc::new(Self { slot: RcuSlot::new(&rcu), bin: UniqueId::new(), rcu });
        // SAFETY: the object lives as long as the test.
        unsafe { world.slot.publish(Some(NonNull::from(&*object))) };
        assert_eq!(world.rcu.epoch.load(Relaxed) + world.rcu.garbage(), 1);
        for (_, local) in world.rcu.cpus.iter() {
            assert_eq!(local.batches.load(Relaxed) + local.reader.word.load(Relaxed), 0);
        }
        // Touches the words of every CPU's cell.
        world.rcu.take_over(&TestMachine::with_cpus(1, nr_cpus));
        (world, object)
    }

    /// Reads the object if it is there, and says whether it was.
    fn look(&self, section: &ReadGuard<'_, TestCpu>) -> bool {
        let found = self.slot.load(section);
        // SAFETY: it is not written while it may be found: what loom is here to check.
        found.inspect(|object| object.value.with(|value| assert_eq!(unsafe { *value }, 7))).is_some()
    }

    fn bin(&self) -> Bin {
        Bin(Cell::new(0), self.bin)
    }

    fn unlink_and_defer(&self) {
        // SAFETY: nothing new is published.
        let old = unsafe { self.slot.publish(None) }.unwrap();
        // SAFETY: unlinked by us, once; the head is the object's first field.
        unsafe { self.rcu.defer(old.cast(), 0, 1, &self.bin()) };
    }

    /// As [`Rcu::poll`], but reclaims nothing.
    fn poll(&self, barrier_all: fn()) {
        self.rcu.note_quiet();
        self.rcu.advance(barrier_all);
    }

    /// An advance that gives up where it would need a barrier.
    fn advance_if_quiet(&self) {
        if self.rcu.is_everybody_quiet(self.rcu.epoch.load(Relaxed)) {
            self.rcu.advance(|| panic!("all CPUs are quiet"));
        }
    }

    fn advance(&self, times: usize, barrier_all: fn()) {
        (0..times).for_each(|_| self.rcu.advance(barrier_all));
    }
}

fn full_fence() {
    fence(SeqCst);
}

/// Numbers of executions, by their outcome.
#[derive(Default)]
struct Seen {
    all: AtomicUsize,
    found: AtomicUsize,
    reclaimed: AtomicUsize,
}

fn explore(preemptions: usize, f: impl Fn(&Seen) + Sync + Send + 'static) -> &'static Seen {
    let seen: &'static Seen = Box::leak(Box::default());
    run_model(preemptions, move || {
        seen.all.fetch_add(1, Relaxed);
        f(seen);
    });
    std::eprintln!(
        "{} executions, the object found in {}, reclaimed in {}",
        seen.all.load(Relaxed),
        seen.found.load(Relaxed),
        seen.reclaimed.load(Relaxed)
    );
    seen
}

/// CPU 0 retires and reclaims, CPU 1 reads, CPU 2 advances. Reclaims objects `early` epochs too soon.
fn three_cpus(barrier_all: fn(), early: u64) -> &'static Seen {
    explore(3, move |seen| {
        let (world, object) = World::new(3);
        let reader = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let found = world.look(&world.rcu.read());
                drop(object);
                found
            }
        });
        let advancer = thread::spawn({
            let world = world.clone();
            move || {
                TestCpu::become_cpu(2);
                world.advance(3, barrier_all);
            }
        });
        world.unlink_and_defer();
        let bin = world.bin();
        let epoch = world.rcu.epoch.load(Acquire);
        world.rcu.reclaim_own(&world.rcu.cpus.get_cpu(), Some(epoch + early), &world.rcu.bound(&bin));
        seen.reclaimed.fetch_add(bin.0.get(), Relaxed);
        advancer.join().unwrap();
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    })
}

fn assert_telling(seen: &Seen) {
    let (all, found, reclaimed) =
        (seen.all.load(Relaxed), seen.found.load(Relaxed), seen.reclaimed.load(Relaxed));
    assert!(found > 0 && found < all, "the model must see the object both found and missed");
    assert!(reclaimed > 0 && reclaimed < all, "the model must see the object both reclaimed and kept");
}

#[test]
fn loom_rcu_reader_against_retire_and_advance_by_another() {
    assert_telling(three_cpus(full_fence, 0));
}

#[test]
#[should_panic = "Causality violation: Concurrent read and write"]
fn loom_rcu_without_the_barrier_fails() {
    three_cpus(|| {}, 0);
}

#[test]
#[should_panic = "Causality violation: Concurrent read and write"]
fn loom_rcu_with_a_grace_period_of_one_epoch_fails() {
    three_cpus(full_fence, 2);
}

/// As [`three_cpus`], with a CPU 0 whose light fence is none: its stores may wait in its store buffer until
/// the next barrier, here by the CPU that advances. It retires between the first barrier and the second: the
/// first has passed when it begins, the second is over once it has executed a fence.
fn retirement_seen_late(early: u64) -> &'static Seen {
    explore(3, move |seen| {
        let (world, object) = World::new(3);
        let reader = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let found = world.look(&world.rcu.read());
                drop(object);
                found
            }
        });
        let retire = {
            let world = world.clone();
            move || {
                with_bare_light_fences(|| world.unlink_and_defer());
                full_fence();
            }
        };
        TestCpu::become_cpu(2);
        let mut retiring = None;
        world.rcu.advance(|| {
            full_fence();
            retiring = Some(thread::spawn(retire));
        });
        let mut join = || retiring.take().into_iter().for_each(|cpu| cpu.join().unwrap());
        world.rcu.advance(|| {
            join();
            full_fence();
        });
        // Where a reader was in the way.
        join();
        world.rcu.advance(full_fence);
        TestCpu::become_cpu(0);
        let bin = world.bin();
        let epoch = world.rcu.epoch.load(Acquire) + early;
        world.rcu.reclaim_own(&world.rcu.cpus.get_cpu(), Some(epoch), &world.rcu.bound(&bin));
        seen.reclaimed.fetch_add(bin.0.get(), Relaxed);
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    })
}

#[test]
fn loom_rcu_reader_against_an_unlinking_that_waits_in_a_store_buffer() {
    assert_telling(retirement_seen_late(0));
}

#[test]
#[should_panic = "Causality violation: Concurrent read and write"]
fn loom_rcu_with_a_grace_period_of_two_epochs_fails() {
    retirement_seen_late(1);
}

#[test]
fn loom_rcu_reader_against_a_cpu_that_retires_and_advances() {
    let seen = explore(3, |seen| {
        let (world, object) = World::new(2);
        let reader = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                // Two sections in a row: the second one's word must not hide that the first is over.
                let found = world.look(&world.rcu.read());
                world.look(&world.rcu.read());
                drop(object);
                found
            }
        });
        world.unlink_and_defer();
        world.advance(3, full_fence);
        let bin = world.bin();
        world.rcu.reclaim_own(&world.rcu.cpus.get_cpu(), None, &world.rcu.bound(&bin));
        seen.reclaimed.fetch_add(bin.0.get(), Relaxed);
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    });
    assert_telling(seen);
}

#[test]
fn loom_rcu_nested_sections_protect_until_the_last_ends() {
    let seen = explore(3, |seen| {
        let (world, object) = World::new(2);
        let reader = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let (outer, inner) = (world.rcu.read(), world.rcu.read());
                drop(outer);
                let found = world.look(&inner);
                drop((inner, object));
                found
            }
        });
        world.unlink_and_defer();
        world.advance(3, full_fence);
        let bin = world.bin();
        world.rcu.reclaim_own(&world.rcu.cpus.get_cpu(), None, &world.rcu.bound(&bin));
        seen.reclaimed.fetch_add(bin.0.get(), Relaxed);
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    });
    assert_telling(seen);
}

#[test]
fn loom_rcu_orphaned_garbage_is_reclaimed_by_another_cpu_after_the_reader() {
    let seen = explore(2, |seen| {
        let (world, object) = World::new(3);
        let reader = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let found = world.look(&world.rcu.read());
                drop(object);
                found
            }
        });
        let other = thread::spawn({
            let world = world.clone();
            move || {
                TestCpu::become_cpu(2);
                world.advance(3, full_fence);
                let bin = world.bin();
                world.rcu.reclaim_free(&world.rcu.bound(&bin));
                bin.0.get()
            }
        });
        world.unlink_and_defer();
        world.rcu.orphan(&world.bin());
        seen.reclaimed.fetch_add(other.join().unwrap(), Relaxed);
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    });
    assert_telling(seen);
}

/// CPU 0 reclaims its free object and retires another one; CPU 1 lacks memory: when it has looked everywhere,
/// the first object is reclaimed. Nothing is lost, and nothing reclaimed twice.
#[test]
fn loom_rcu_garbage_is_taken_over_from_an_owner_that_retires_and_reclaims() {
    let seen = explore(2, |seen| {
        let (world, object) = World::new(2);
        let next = Arc::new(Object { head: RcuHead::new(), value: UnsafeCell::new(1) });
        world.unlink_and_defer();
        world.advance(3, full_fence);
        let taker = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let (bin, machine) = (world.bin(), TestMachine::with_cpus(1, 2));
                let reclaim = world.rcu.bound(&bin);
                world.rcu.take_over(&machine);
                while world
                    .rcu
                    .reclaim_orphans(&reclaim, || Some(world.rcu.advance.lock().take_orphans(&world.rcu)))
                {
                }
                world.rcu.wait_for_batches();
                // SAFETY: reclaimed, and written by nobody any more: what loom is here to check.
                object.value.with(|value| assert_eq!(unsafe { *value }, GONE));
                drop(object);
                bin.0.get()
            }
        });
        let bin = world.bin();
        world.rcu.reclaim_own(&world.rcu.cpus.get_cpu(), None, &world.rcu.bound(&bin));
        // SAFETY: nobody else has the object; the test frees it at its end.
        unsafe { world.rcu.defer(NonNull::from(&*next).cast(), 0, 1, &bin) };
        let taken = taker.join().unwrap();
        assert_eq!((taken + bin.0.get(), world.rcu.garbage()), (1, 1));
        // The other one waits on its CPU, or among the orphans.
        seen.found.fetch_add(usize::from(world.rcu.orphaned.load(Relaxed) == 1), Relaxed);
        seen.reclaimed.fetch_add(taken, Relaxed);
        world.advance(3, full_fence);
        world.rcu.reclaim_free(&world.rcu.bound(&bin));
        assert_eq!((taken + bin.0.get(), world.rcu.garbage()), (2, 0));
        drop(next);
    });
    assert_telling(seen);
}

/// CPU 0 retires what CPU 1 may read, and is quiet; CPU 2 lacks memory.
#[test]
fn loom_rcu_garbage_is_taken_over_after_the_reader() {
    let seen = explore(2, |seen| {
        let (world, object) = World::new(3);
        let reader = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let found = world.look(&world.rcu.read());
                drop(object);
                found
            }
        });
        let taker = thread::spawn({
            let world = world.clone();
            move || {
                TestCpu::become_cpu(2);
                world.advance(3, full_fence);
                let (bin, machine) = (world.bin(), TestMachine::with_cpus(1, 3));
                world.rcu.take_over(&machine);
                world.rcu.reclaim_free(&world.rcu.bound(&bin));
                bin.0.get()
            }
        });
        world.unlink_and_defer();
        seen.reclaimed.fetch_add(taker.join().unwrap(), Relaxed);
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    });
    assert_telling(seen);
}

/// CPU 0 retires, polls and reclaims; CPU 1 reads and polls, `times` times each. An advance has its barrier
/// unless both CPUs have polled in its epoch.
fn two_cpus_that_poll(barrier_all: fn(), times: [usize; 2]) -> &'static Seen {
    explore(3, move |seen| {
        let (world, object) = World::new(2);
        let reader = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let mut found = false;
                for _ in 0..times[1] {
                    found |= world.look(&world.rcu.read());
                    world.poll(barrier_all);
                }
                drop(object);
                found
            }
        });
        world.unlink_and_defer();
        for _ in 0..times[0] {
            world.poll(barrier_all);
        }
        let bin = world.bin();
        world.rcu.reclaim_own(&world.rcu.cpus.get_cpu(), None, &world.rcu.bound(&bin));
        seen.reclaimed.fetch_add(bin.0.get(), Relaxed);
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    })
}

#[test]
fn loom_rcu_two_cpus_that_poll_with_a_barrier_where_one_has_not() {
    assert_telling(two_cpus_that_poll(full_fence, [3, 1]));
    assert_telling(two_cpus_that_poll(full_fence, [2, 2]));
}

/// Advances without a barrier: the light fences order nothing, so all depends on what the CPUs say. The
/// reader looks once, in one of three sections: loom shows no thread again, after a yield, an old value that
/// it has seen.
fn quiet_cpus_alone(section_of_look: usize, early: u64) -> &'static Seen {
    explore(3, move |seen| {
        let (world, object) = World::new(2);
        let reader = thread::spawn({
            let (world, object) = (world.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let mut found = false;
                with_bare_light_fences(|| {
                    for round in 0..3 {
                        let section = world.rcu.read();
                        found |= round == section_of_look && world.look(&section);
                        drop(section);
                        world.rcu.note_quiet();
                        if round > 0 {
                            TestCpu::relax();
                        }
                    }
                });
                drop(object);
                found
            }
        });
        let bin = world.bin();
        with_bare_light_fences(|| {
            world.unlink_and_defer();
            // Of what kind the first of the three is does not matter.
            world.advance(1, || {});
            for _ in 0..3 {
                world.rcu.note_quiet();
                world.advance_if_quiet();
                let epoch = world.rcu.epoch.load(Acquire) + early;
                world.rcu.reclaim_own(&world.rcu.cpus.get_cpu(), Some(epoch), &world.rcu.bound(&bin));
                TestCpu::relax();
            }
        });
        seen.reclaimed.fetch_add(bin.0.get(), Relaxed);
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    })
}

#[test]
fn loom_rcu_epochs_advance_without_a_barrier_where_all_cpus_are_quiet() {
    (0..2).for_each(|section| assert_telling(quiet_cpus_alone(section, 0)));
    // What is reclaimed meanwhile may not be found any more.
    assert!(quiet_cpus_alone(2, 0).reclaimed.load(Relaxed) > 0);
}

#[test]
#[should_panic = "Causality violation: Concurrent read and write"]
fn loom_rcu_quiet_cpus_with_a_grace_period_of_one_epoch_fails() {
    quiet_cpus_alone(1, 2);
}

#[test]
fn loom_rcu_slot_publishes_content() {
    let seen = explore(3, |seen| {
        let (world, object) = World::new(2);
        let next = Arc::new(Object { head: RcuHead::new(), value: UnsafeCell::new(1) });
        let reader = thread::spawn({
            let (world, next, object) = (world.clone(), next.clone(), object.clone());
            move || {
                TestCpu::become_cpu(1);
                let section = world.rcu.read();
                let found = world.slot.load(&section).unwrap();
                // SAFETY: a published object is not written.
                let value = found.value.with(|value| unsafe { *value });
                assert!(
                    value == 7 && core::ptr::eq(found, &*object)
                        || value == 8 && core::ptr::eq(found, &*next)
                );
                value == 8
            }
        });
        // SAFETY: not published yet.
        next.value.with_mut(|value| unsafe { *value = 8 });
        // SAFETY: the objects live as long as the test.
        unsafe { world.slot.publish(Some(NonNull::from(&*next))) };
        seen.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    });
    assert!(seen.found.load(Relaxed) > 0 && seen.found.load(Relaxed) < seen.all.load(Relaxed));
}
