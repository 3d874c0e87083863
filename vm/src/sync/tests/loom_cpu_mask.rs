//! The summary against a reader: of a CPU that inserts itself and then reads a word, and another that writes
//! the word and then reads the set, one sees the other.

use super::*;
use crate::machine::testing::{TestCpu, with_leaked};
use crate::sync::atomic::fence;
use crate::sync::testing::thread;
use crate::sync::testing::{UNBOUNDED, run_model};

/// A set of two words, and the word that goes with it.
struct World {
    mask: AtomicCpuMask<TestCpu, [u64; 2]>,
    generation: AtomicU64<TestCpu>,
}

/// As a CPU that loads a space.
fn enter(world: &World, cpu: u32) -> u64 {
    world.mask.insert(CpuId(cpu));
    fence::<TestCpu>(SeqCst);
    world.generation.load(Relaxed)
}

/// As a CPU that flushes it; whether it finds `cpu` by both of the ways to ask.
fn flush(world: &World, cpu: u32) -> bool {
    world.generation.store(1, Relaxed);
    fence::<TestCpu>(SeqCst);
    let others = world.mask.has_other_than(CpuId(0));
    let listed = world.mask.iter_after(CpuId(0)).any(|it| it == CpuId(cpu));
    others && listed
}

#[test]
fn loom_a_cpu_of_another_word_is_seen_or_sees() {
    run_model(UNBOUNDED, || {
        let world = World { mask: AtomicCpuMask::new(), generation: AtomicU64::new(0) };
        with_leaked(world, |world| {
            let other = thread::spawn(move || enter(world, 64));
            let found = flush(world, 64);
            let seen = other.join().unwrap();
            assert!(found || seen == 1, "a CPU was missed that has not seen the edit");
        });
    });
}

/// The second CPU may find the bit of the summary set by the first.
#[test]
fn loom_two_cpus_of_a_word_are_seen_or_see() {
    run_model(3, || {
        let world = World { mask: AtomicCpuMask::new(), generation: AtomicU64::new(0) };
        with_leaked(world, |world| {
            let others = [64, 65].map(|cpu| (cpu, thread::spawn(move || enter(world, cpu))));
            world.generation.store(1, Relaxed);
            fence::<TestCpu>(SeqCst);
            let found = [64, 65].map(|cpu| world.mask.iter_after(CpuId(0)).any(|it| it == CpuId(cpu)));
            for ((_, other), found) in others.into_iter().zip(found) {
                assert!(other.join().unwrap() == 1 || found, "a CPU was missed that has not seen the edit");
            }
        });
    });
}
