//! A reader, a CPU that retires, a CPU that advances: all executions with a few preemptions.
//!
//! The object's value is loom's cell: loom fails when freeing it is not ordered after the reader's last
//! access.

mod loom_polls;
mod loom_taken_over;

use super::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::RcuSlot;
use crate::sync::atomic::with_bare_light_fences;
use crate::sync::testing::thread::{self, JoinHandle};
use crate::sync::testing::{Heap, run_model};
use core::cell::Cell;
use loom::cell::UnsafeCell;
use loom::sync::atomic::fence;
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

/// Poisons freed objects and counts them.
struct Bin(Cell<usize>, UniqueId);

// SAFETY: objects of the models are freed at their end.
unsafe impl DeferredFree for Bin {
    fn id(&self) -> UniqueId {
        self.1
    }

    unsafe fn free_deferred(&self, _tag: usize, object: NonNull<RcuHead>) {
        // SAFETY: the head is the first field of an object, which the test frees at its end.
        let object = unsafe { object.cast::<Object>().as_ref() };
        // SAFETY: freed, so no other thread has it: what loom is here to check.
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

    /// Frees what has expired of this CPU's garbage, at this epoch or the present one. Returns the number of
    /// objects.
    fn free_own(&self, epoch: Option<u64>) -> usize {
        let bin = self.bin();
        self.rcu.free_own(&self.rcu.cpus.get_cpu(), epoch, &self.rcu.bound(&bin));
        bin.0.get()
    }

    fn unlink_and_defer(&self) {
        // SAFETY: nothing new is published.
        let old = unsafe { self.slot.publish(None) }.unwrap();
        // SAFETY: unlinked by us, once; the head is the object's first field.
        unsafe { self.rcu.defer(old.cast(), 0, 1, &self.bin()) };
    }

    /// As [`Rcu::poll`], but frees nothing.
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

/// A thread that runs `part` on a CPU.
fn spawn_on<T: 'static>(
    cpu: u32,
    world: &Arc<World>,
    part: impl FnOnce(&World) -> T + 'static,
) -> JoinHandle<T> {
    let world = world.clone();
    thread::spawn(move || {
        TestCpu::become_cpu(cpu);
        part(&world)
    })
}

/// CPU 1, which reads. Returns whether it found the object.
fn spawn_reader(
    world: &Arc<World>,
    object: &Arc<Object>,
    read: impl FnOnce(&World) -> bool + 'static,
) -> JoinHandle<bool> {
    let object = object.clone();
    spawn_on(1, world, move |world| {
        let found = read(world);
        drop(object);
        found
    })
}

fn full_fence() {
    fence(SeqCst);
}

/// Numbers of executions, by their outcome.
#[derive(Default)]
struct Seen {
    all: AtomicUsize,
    found: AtomicUsize,
    freed: AtomicUsize,
}

impl Seen {
    /// Counts what the reader found and how many objects were freed.
    fn count(&self, reader: JoinHandle<bool>, freed: usize) {
        self.freed.fetch_add(freed, Relaxed);
        self.found.fetch_add(usize::from(reader.join().unwrap()), Relaxed);
    }
}

fn explore(preemptions: usize, f: impl Fn(&Seen) + Sync + Send + 'static) -> &'static Seen {
    let seen: &'static Seen = Box::leak(Box::default());
    run_model(preemptions, move || {
        seen.all.fetch_add(1, Relaxed);
        f(seen);
    });
    std::eprintln!(
        "{} executions, the object found in {}, freed in {}",
        seen.all.load(Relaxed),
        seen.found.load(Relaxed),
        seen.freed.load(Relaxed)
    );
    seen
}

/// CPU 0 retires and frees, CPU 1 reads, CPU 2 advances. Frees objects `early` epochs too soon.
fn three_cpus(barrier_all: fn(), early: u64) -> &'static Seen {
    explore(3, move |seen| {
        let (world, object) = World::new(3);
        let reader = spawn_reader(&world, &object, |world| world.look(&world.rcu.read()));
        let advancer = spawn_on(2, &world, move |world| world.advance(3, barrier_all));
        world.unlink_and_defer();
        let freed = world.free_own(Some(world.rcu.epoch.load(Acquire) + early));
        advancer.join().unwrap();
        seen.count(reader, freed);
    })
}

fn assert_telling(seen: &Seen) {
    let (all, found, freed) = (seen.all.load(Relaxed), seen.found.load(Relaxed), seen.freed.load(Relaxed));
    assert!(found > 0 && found < all, "the model must see the object both found and missed");
    assert!(freed > 0 && freed < all, "the model must see the object both freed and kept");
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
        let reader = spawn_reader(&world, &object, |world| world.look(&world.rcu.read()));
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
        let freed = world.free_own(Some(world.rcu.epoch.load(Acquire) + early));
        seen.count(reader, freed);
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
        let reader = spawn_reader(&world, &object, |world| {
            // Two sections in a row: the second one's word must not hide that the first is over.
            let found = world.look(&world.rcu.read());
            world.look(&world.rcu.read());
            found
        });
        world.unlink_and_defer();
        world.advance(3, full_fence);
        seen.count(reader, world.free_own(None));
    });
    assert_telling(seen);
}

#[test]
fn loom_rcu_nested_sections_protect_until_the_last_ends() {
    let seen = explore(3, |seen| {
        let (world, object) = World::new(2);
        let reader = spawn_reader(&world, &object, |world| {
            let (outer, inner) = (world.rcu.read(), world.rcu.read());
            drop(outer);
            world.look(&inner)
        });
        world.unlink_and_defer();
        world.advance(3, full_fence);
        seen.count(reader, world.free_own(None));
    });
    assert_telling(seen);
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
