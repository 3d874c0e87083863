//! A value that ends against lookups by number: refused, or held until the lookup lets go.

use super::*;
use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, with_leaked};
use crate::sync::refill_zeros;
use crate::sync::testing::{run_model, thread};
use crate::units::{NodeId, PAGE_SIZE};
use loom::cell::UnsafeCell as LoomCell;
use std::boxed::Box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed as HostRelaxed};

/// A value whose end writes what its holds read and write, without a word of synchronisation of its own.
struct Value(&'static LoomCell<u32>);

// SAFETY: loom checks every access.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.with_mut(|word| {
            // SAFETY: loom checks that no other thread accesses it.
            let word = unsafe { &mut *word };
            assert_eq!(*word, 0, "a value ends twice");
            *word = 1;
        });
    }
}

impl Value {
    fn assert_lives(&self) {
        // SAFETY: loom checks that no thread writes it.
        self.0.with(|word| assert_eq!(unsafe { *word }, 0, "a value that has ended is held"));
    }
}

type Tests = HeldRegistry<'static, Value, TestMachine>;
type TestHold = Hold<'static, 'static, Value, TestMachine>;

struct World {
    registry: &'static Tests,
    rcu: &'static Rcu<'static, TestCpu>,
}

impl World {
    fn hold(&self) -> Option<TestHold> {
        let found = self.registry.hold(NonZeroU64::MIN, &self.rcu.read());
        found.inspect(|hold| hold.assert_lives())
    }
}

/// Both CPUs run their part, CPU 0 with the first hold; then the value has ended once, and its memory is
/// free. Returns in how many executions CPU 1's part said no, and yes.
fn explore(parts: (fn(&World, TestHold), fn(&World) -> bool)) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(3, move || {
        let ended: &'static LoomCell<u32> = Box::leak(Box::new(LoomCell::new(0)));
        with_leaked(TestMachine::with_cpus(64, 2), |machine| {
            let (start, len_bytes) =
                (machine.frames().start.addr(), machine.frames().len() * PAGE_SIZE as u64);
            let kind = RegionKind::Usable(Init::Zeroed);
            let map = BootMap::new(&[Region { start, len_bytes, kind, node: NodeId(0) }]).unwrap();
            with_leaked(Memory::new(machine, map).unwrap(), |memory| {
                with_leaked(Rcu::carve(&mut memory.boot_allocator(), 2).unwrap(), |rcu| {
                    with_leaked(HeldRegistry::new(memory, rcu).unwrap(), |registry| {
                        for cpu in [1, 0] {
                            TestCpu::become_cpu(cpu);
                            rcu.poll(machine, memory);
                            drop(rcu.read());
                        }
                        let allocated = memory.check().unwrap().allocated;
                        let hold = registry.insert(NonZeroU64::MIN, Value(ended)).ok().unwrap();
                        // The words are there before there are threads.
                        assert_eq!(hold.holds_racy(), 1);
                        refill_zeros();
                        let world = World { registry, rcu };
                        let cpu1 = thread::spawn(move || {
                            TestCpu::become_cpu(1);
                            parts.1(&World { registry, rcu })
                        });
                        parts.0(&world, hold);
                        let held = cpu1.join().unwrap();
                        seen[usize::from(held)].fetch_add(1, HostRelaxed);
                        // SAFETY: loom checks that no thread writes it.
                        ended.with(|word| assert_eq!(unsafe { *word }, 1, "a value that nobody holds lives"));
                        assert!(world.hold().is_none());
                        for cpu in [1, 0] {
                            TestCpu::become_cpu(cpu);
                            rcu.wait(machine, memory);
                        }
                        memory.shrink_slab_pools();
                        assert_eq!(memory.check().unwrap().allocated, allocated);
                    });
                });
            });
        });
    });
    seen.each_ref().map(|count| count.load(HostRelaxed))
}

#[test]
fn loom_a_value_is_held_or_refused_while_it_ends() {
    let seen = explore((|_, hold| drop(hold), |world| world.hold().is_some()));
    assert!(seen.iter().all(|&count| count > 0), "it is to be held and refused: {seen:?}");
}

/// The thread that looks it up lets go last in some executions.
#[test]
fn loom_two_holds_go_at_once() {
    let seen = explore((
        |world, hold| {
            let other = world.hold();
            drop(hold);
            drop(other);
        },
        |world| world.hold().is_some_and(|hold| hold.try_clone().is_some()),
    ));
    assert!(seen.iter().all(|&count| count > 0), "it is to be held and refused: {seen:?}");
}
