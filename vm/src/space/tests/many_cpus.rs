//! A machine of as many CPUs as there may be.

use super::world::{PAGE, boot_map, space_of, store};
use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::{MapRequest, Vm};
use crate::sync::Carve;
use crate::sync::testing::Heap;
use crate::tlb::Shootdown;
use crate::units::{Access, CpuId, MAX_CPUS};
use crate::work::WorkerPool;
use core::alloc::Layout;
use core::mem::MaybeUninit;
use std::thread;
use std::vec::Vec;

const MOST: u32 = MAX_CPUS as u32;
/// CPUs at the edges of words, the last CPU among them.
const EDGES: [u32; 5] = [0, 63, 64, MOST - 65, MOST - 1];

#[test]
fn a_flush_reaches_the_cpus_that_run_the_space_on_a_machine_of_4096_and_no_others() {
    let machine = TestMachine::with_cpus(9000, MOST);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let (space, other) = (space_of(&vm), space_of(&vm));
    machine.run_as(1);
    let base = space.map(&MapRequest::anonymous(PAGE)).unwrap();
    store(&space, base);
    // On each of these CPUs the space is loaded, and the page cached; on CPU 65 another space is.
    let all_of = |cpus: &[u32]| cpus.iter().copied().map(CpuId).collect::<Vec<_>>();
    for cpu in EDGES {
        machine.run_as(cpu);
        core::mem::forget(space.activate(None));
        assert!(machine.translate(base.vpn(), Access::Write).is_some());
    }
    machine.run_as(65);
    core::mem::forget(other.activate(None));
    assert_eq!(space.inspect().cpus_racy().iter().collect::<Vec<_>>(), all_of(&EDGES));
    thread::scope(|scope| {
        let unmapping = scope.spawn(|| {
            machine.run_as(1);
            space.unmap(base, PAGE).unwrap();
        });
        while !unmapping.is_finished() {
            for cpu in EDGES.into_iter().chain([65]) {
                machine.run_as(cpu);
                TestCpu::relax();
            }
        }
    });
    for cpu in EDGES {
        assert!(!machine.has_cached(cpu, base.vpn()), "CPU {cpu} uses a page whose unmap has returned");
    }
    let stats = vm.shootdown_stats();
    assert_eq!((stats.sent, stats.answered), (EDGES.len() as u64, EDGES.len() as u64));
    for cpu in EDGES {
        machine.run_as(cpu);
        drop(space.active_here().unwrap());
    }
    machine.run_as(65);
    drop(other.active_here().unwrap());
    assert!(space.runs_nowhere() && other.runs_nowhere());
}

/// Counts what is carved.
#[derive(Default)]
struct Counting {
    bytes: usize,
}

impl<'m> Carve<'m> for Counting {
    fn carve(&mut self, layout: Layout) -> Option<&'m mut [MaybeUninit<u8>]> {
        self.bytes += layout.size();
        Heap.carve(layout)
    }
}

#[test]
fn a_cpu_takes_the_same_memory_on_a_small_machine_and_on_one_of_4096() {
    let per_cpu = |nr_cpus: u32| {
        let mut counting = Counting::default();
        Shootdown::<TestCpu>::carve(&mut counting, nr_cpus).unwrap();
        counting.bytes as f64 / f64::from(nr_cpus)
    };
    assert_eq!(per_cpu(1), per_cpu(MOST), "no part of the shootdown grows with the square of the CPUs");
    assert!(per_cpu(MOST) <= 1024.0);
    let machine = TestMachine::with_cpus(9000, MOST);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let free = vm.memory().stats().free();
    let kib_per_cpu = (9000 - free) * 4 / u64::from(MOST);
    assert!(kib_per_cpu <= 8, "{kib_per_cpu} KiB for each CPU");
}

#[test]
fn a_worker_pool_has_a_helper_on_the_last_of_4096_cpus() {
    let machine = TestMachine::with_cpus(1, MOST);
    let workers = WorkerPool::spawn(&machine, &mut Heap).unwrap();
    let last = CpuId(MOST - 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            machine.run_as(last.0);
            machine.run_helper();
        });
        while !workers.has_helper_racy(last) {
            TestCpu::relax();
        }
        machine.run_as(64);
        let helped = || {
            let by = core::sync::atomic::AtomicU32::new(0);
            let job = crate::work::Job::new(0..64, |chunk: &crate::work::Chunk<'_>| {
                by.fetch_max(chunk.worker(), core::sync::atomic::Ordering::Relaxed);
                (0..100).for_each(|_| thread::yield_now());
                Ok::<(), ()>(())
            });
            workers.run(&job).unwrap();
            by.into_inner() == last.0 + 1
        };
        assert!((0..1000).any(|_| helped()), "the helper of the last CPU joins no job");
        drop(workers);
    });
}
