//! Readers, objects that are retired, and the bounds of garbage.

mod taken_over;

use super::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::RcuSlot;
use crate::sync::testing::Heap;
use std::boxed::Box;
use std::sync::atomic::{AtomicBool, AtomicU64 as Count};
use std::thread;
use taken_over::defer_on;

const GONE: u64 = 0xdead;

/// What an object of the tests counts for.
const BYTES: usize = 1024;
/// Objects of a lot, and the most that wait.
const LOT: u64 = (GarbageLimits::SMALL.lot_bytes() / BYTES) as u64;
const MOST: u64 = (GarbageLimits::SMALL.most_bytes() / BYTES) as u64;

#[repr(C)]
struct Object {
    head: RcuHead,
    value: Count,
}

/// Counts and poisons freed objects; the memory stays, so that a late reader reads the poison.
struct Bin {
    id: UniqueId,
    count: Count,
}

impl Default for Bin {
    fn default() -> Self {
        Self { id: UniqueId::new(), count: Count::new(0) }
    }
}

// SAFETY: objects of the tests are never freed.
unsafe impl DeferredFree for Bin {
    fn id(&self) -> UniqueId {
        self.id
    }

    unsafe fn free_deferred(&self, tag: usize, object: NonNull<RcuHead>) {
        assert_eq!(tag, 7);
        // SAFETY: the head is the first field of an object of the test, which is never freed.
        unsafe { object.cast::<Object>().as_ref() }.value.store(GONE, Relaxed);
        self.count.fetch_add(1, Relaxed);
    }
}

fn object(value: u64) -> NonNull<Object> {
    NonNull::from(Box::leak(Box::new(Object { head: RcuHead::new(), value: Count::new(value) })))
}

fn world(nr_cpus: u32) -> (TestMachine, Rcu<'static, TestCpu>, Bin) {
    (TestMachine::with_cpus(1, nr_cpus), Rcu::carve(&mut Heap, nr_cpus).unwrap(), Bin::default())
}

fn retire(rcu: &Rcu<TestCpu>, machine: &TestMachine, bin: &impl DeferredFree, object: NonNull<Object>) {
    // SAFETY: objects are made for one use and never freed.
    unsafe { rcu.retire(machine, object.cast(), 7, BYTES, bin) };
}

#[test]
fn an_object_outlives_the_reader_that_may_hold_it() {
    let (machine, rcu, bin) = world(2);
    let slot = RcuSlot::<Object, TestCpu>::new(&rcu);
    // SAFETY: the object is never freed.
    unsafe { slot.publish(Some(object(1))) };
    let (entered, leave) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            TestCpu::become_cpu(1);
            let section = rcu.read();
            let found = slot.load(&section).unwrap();
            entered.store(true, Release);
            while !leave.load(Acquire) {
                assert_eq!(found.value.load(Relaxed), 1);
                thread::yield_now();
            }
        });
        while !entered.load(Acquire) {
            thread::yield_now();
        }
        // SAFETY: nothing new is published.
        let old = unsafe { slot.publish(None) }.unwrap();
        retire(&rcu, &machine, &bin, old);
        (0..100).for_each(|_| rcu.poll(&machine, &bin));
        assert_eq!((bin.count.load(Relaxed), rcu.garbage()), (0, 1));
        leave.store(true, Release);
        rcu.wait(&machine, &bin);
        assert_eq!((bin.count.load(Relaxed), rcu.garbage()), (1, 0));
    });
}

#[test]
fn sections_nest_and_end_in_any_order() {
    let (machine, rcu, bin) = world(1);
    let (outer, inner) = (rcu.read(), rcu.read());
    drop(outer);
    // SAFETY: the object is made for one use and never freed.
    unsafe { rcu.defer(object(1).cast(), 7, BYTES, &bin) };
    (0..10).for_each(|_| rcu.poll(&machine, &bin));
    assert_eq!(bin.count.load(Relaxed), 0, "the inner section is still open");
    drop(inner);
    rcu.wait(&machine, &bin);
    assert_eq!(bin.count.load(Relaxed), 1);
}

#[test]
fn without_readers_four_lots_wait_at_most() {
    let (machine, rcu, bin) = world(1);
    for n in 1..=10_000 {
        retire(&rcu, &machine, &bin, object(n));
        assert!(rcu.garbage() <= 4 * LOT);
        assert_eq!(rcu.garbage() + bin.count.load(Relaxed), n);
    }
    rcu.wait(&machine, &bin);
    assert_eq!(bin.count.load(Relaxed), 10_000);
}

/// The machine of the tests executes the barrier of each advance that finds no reader: so epochs are
/// advances.
#[test]
fn one_advance_serves_all_cpus() {
    for nr_cpus in [1, 2, 5] {
        let (machine, rcu, bin) = world(nr_cpus);
        for _ in 0..20 * LOT {
            for cpu in 0..nr_cpus {
                TestCpu::become_cpu(cpu);
                retire(&rcu, &machine, &bin, object(1));
            }
        }
        let advances = rcu.epoch.load(Relaxed) - 1;
        assert!((20..=21).contains(&advances), "{advances} advances for 20 lots of each of {nr_cpus} CPUs");
        assert!(rcu.garbage() <= 4 * LOT * u64::from(nr_cpus));
    }
    TestCpu::become_cpu(0);
}

#[test]
fn a_cpu_that_retires_in_an_epoch_is_spared_its_barrier() {
    let (_, rcu, bin) = world(3);
    let advance = || {
        let (before, barriers) = (rcu.epoch.load(Relaxed), core::cell::Cell::new(0));
        rcu.advance(|| barriers.set(barriers.get() + 1));
        (rcu.epoch.load(Relaxed) - before, barriers.get())
    };
    for rounds in [1, 7] {
        for _ in 0..rounds {
            (0..3).for_each(|cpu| defer_on(cpu, u64::from(cpu) + 1, &rcu, &bin));
            assert_eq!(advance(), (1, 0), "all have retired in this epoch");
        }
        (0..2).for_each(|cpu| defer_on(cpu, 1, &rcu, &bin));
        assert_eq!(advance(), (1, 1), "one has not");
    }
    let section = rcu.read();
    (0..3).for_each(|cpu| defer_on(cpu, 1, &rcu, &bin));
    assert_eq!(advance(), (1, 1), "one is in a section");
    drop(section);
}

/// The worst for one CPU is that another moves the epoch just after it has looked.
#[test]
fn four_lots_wait_at_most_whenever_another_cpu_advances() {
    let (machine, rcu, bin) = world(2);
    for other in 0..3 * LOT {
        for n in 0..30 * LOT {
            TestCpu::become_cpu(0);
            retire(&rcu, &machine, &bin, object(1));
            let own = rcu.cpus.of(crate::units::CpuId(0)).count.load(Relaxed);
            assert!(own <= 4 * LOT, "{own} objects wait");
            TestCpu::become_cpu(1);
            if n % (other + 1) == other {
                rcu.poll(&machine, &bin);
            }
        }
    }
    TestCpu::become_cpu(0);
}

#[test]
fn limits_follow_the_memory() {
    let limits = |bytes, nr_cpus| GarbageLimits::for_memory(bytes, nr_cpus);
    assert_eq!(limits(0, 0), GarbageLimits::SMALL);
    assert_eq!(limits(64 << 20, 8), GarbageLimits::SMALL);
    assert_eq!((limits(64 << 20, 2).lot_bytes(), limits(64 << 20, 2).most_bytes()), (64 << 10, 512 << 10));
    assert_eq!(limits(u64::MAX, 1), GarbageLimits::LARGE);
    for (bytes, nr_cpus) in [(1 << 30, 4), (16 << 30, 192), (100 << 20, 1)] {
        let most = limits(bytes, nr_cpus).most_bytes() as u64;
        assert!(most * u64::from(nr_cpus) <= bytes / 64 || most == GarbageLimits::SMALL.most_bytes() as u64);
    }
}

#[test]
fn retiring_past_the_most_that_may_wait_waits_for_the_reader() {
    let (machine, rcu, bin) = world(2);
    let (entered, done) = (AtomicBool::new(false), Count::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            TestCpu::become_cpu(1);
            let _section = rcu.read();
            entered.store(true, Release);
            while rcu.garbage() < MOST {
                thread::yield_now();
            }
            (0..50).for_each(|_| thread::yield_now());
            assert!(done.load(Relaxed) < MOST, "the retiring CPU did not wait");
        });
        while !entered.load(Acquire) {
            thread::yield_now();
        }
        for _ in 0..2 * MOST {
            retire(&rcu, &machine, &bin, object(1));
            done.fetch_add(1, Relaxed);
        }
    });
    assert!(rcu.garbage() < MOST);
}

#[test]
fn freeing_may_retire_again() {
    struct Chain<'a>(&'a Rcu<'a, TestCpu>, &'a TestMachine, Count, UniqueId);
    // SAFETY: objects of the tests are never freed.
    unsafe impl DeferredFree for Chain<'_> {
        fn id(&self) -> UniqueId {
            self.3
        }

        unsafe fn free_deferred(&self, _tag: usize, _object: NonNull<RcuHead>) {
            if self.2.fetch_add(1, Relaxed) < 1_000 {
                retire(self.0, self.1, self, object(1));
            }
        }
    }
    let (machine, rcu, _) = world(1);
    let chain = Chain(&rcu, &machine, Count::new(0), UniqueId::new());
    (0..300).for_each(|_| retire(&rcu, &machine, &chain, object(1)));
    while rcu.garbage() > 0 {
        rcu.wait(&machine, &chain);
    }
    assert_eq!(chain.2.load(Relaxed), 1_300);
}

/// In every build, and not only where debug builds have noticed it before.
#[test]
#[should_panic = "waiting for readers in a read section"]
fn a_cpu_does_not_wait_for_its_own_section() {
    let (machine, rcu, _) = world(1);
    let _reading = rcu.read();
    rcu.wait_for_readers(&machine, None);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "waiting for readers in a read section"]
fn retiring_in_a_read_section_is_a_checked_error() {
    let (machine, rcu, bin) = world(1);
    let _section = rcu.read();
    retire(&rcu, &machine, &bin, object(1));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic = "under a lock that a reader may wait for"]
fn retiring_under_a_spin_lock_is_a_checked_error() {
    let (machine, rcu, bin) = world(1);
    let lock = crate::sync::RawSpinLock::<TestCpu>::new();
    let _held = lock.lock(lockdep::ZONE);
    retire(&rcu, &machine, &bin, object(1));
}

#[test]
fn readers_never_meet_a_freed_object() {
    let (machine, rcu, bin) = world(4);
    let slots = [(); 4].map(|()| RcuSlot::<Object, TestCpu>::new(&rcu));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for cpu in 2..4 {
            let (rcu, slots, stop) = (&rcu, &slots, &stop);
            scope.spawn(move || {
                TestCpu::become_cpu(cpu);
                while !stop.load(Relaxed) {
                    let section = rcu.read();
                    let found = slots.each_ref().map(|slot| slot.load(&section));
                    for object in found.into_iter().flatten() {
                        assert_ne!(object.value.load(Relaxed), GONE);
                    }
                }
            });
        }
        let writers = [0, 1].map(|cpu: usize| {
            let (rcu, slots, machine, bin) = (&rcu, &slots, &machine, &bin);
            scope.spawn(move || {
                TestCpu::become_cpu(cpu as u32);
                for n in 0..5_000 {
                    // SAFETY: objects are made for one use and never freed.
                    let old = unsafe { slots[cpu * 2 + n % 2].publish(Some(object(1))) };
                    if let Some(old) = old {
                        retire(rcu, machine, bin, old);
                    }
                }
                rcu.wait(machine, bin);
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Relaxed);
    });
    assert_eq!(bin.count.load(Relaxed) + rcu.garbage(), 10_000 - 4);
    assert_eq!(rcu.garbage(), 0);
}

/// The objects' memory is another's, and gone perhaps.
#[test]
fn garbage_of_one_memory_is_given_to_no_other() {
    let (machine, rcu, bin) = world(1);
    let other = Bin::default();
    retire(&rcu, &machine, &bin, object(1));
    let calls: [&dyn Fn(); 4] =
        [&|| rcu.poll(&machine, &other), &|| rcu.wait(&machine, &other), &|| rcu.orphan(&other), &|| {
            retire(&rcu, &machine, &other, object(2))
        }];
    for call in calls {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    }
    rcu.wait(&machine, &bin);
    assert_eq!((other.count.load(Relaxed), bin.count.load(Relaxed), rcu.garbage()), (0, 1, 0));
}
