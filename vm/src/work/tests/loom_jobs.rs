//! Models of the deques, between workers of two nodes: every grain is taken once; of a whole job with one
//! helper; and of an ordered queue between its submitter and one helper: everything is finished in order, and
//! no wake-up is lost.

use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine, with_leaked};
use crate::sync::testing::thread;
use crate::sync::testing::{Heap, run_model};
use crate::units::{CpuId, CpuMask, NodeId};
use crate::work::deque::{NodeDeques, Side};
use crate::work::{Chunk, Failed, Job, PollLimit, WorkerPool};
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

const GRAINS: u32 = 5;

/// Host synchronisation, so that counting is no step of the model.
struct World {
    deques: NodeDeques<TestCpu>,
    taken: [AtomicU32; GRAINS as usize],
}

impl World {
    fn count(&self, grains: std::ops::Range<u32>) {
        grains.for_each(|grain| {
            assert_eq!(self.taken[grain as usize].fetch_add(1, Relaxed), 0, "grain {grain} is taken twice");
        });
    }

    /// The work of a worker, until all deques look empty.
    fn work(&self, own: usize, side: Side) {
        while let Some(grains) = self.deques.next(own, side, |_| 1, 1) {
            self.count(grains);
        }
    }
}

/// All grains are in deque 0 at the start; the caller and a helper work on these deques. They steal from each
/// other, back and forth.
fn explore(preemptions: usize, caller: usize, helper: usize) -> usize {
    run_model(preemptions, move || {
        let deques = NodeDeques::new(0..GRAINS, NodeId(0), 2);
        let world = Arc::new(World { deques, taken: Default::default() });
        // In its place, and touched before threads are spawned: shadows go by address.
        assert_eq!(world.deques.rests().iter().map(|rest| rest.len()).sum::<usize>(), GRAINS as usize);
        let other = thread::spawn({
            let world = world.clone();
            move || world.work(helper, Side::Back)
        });
        world.work(caller, Side::Front);
        other.join().unwrap();
        // A worker that leaves during a theft leaves the stolen grains to the thief.
        assert!(world.taken.iter().all(|grain| grain.load(Relaxed) == 1), "a grain is lost");
    })
}

#[test]
fn loom_a_deque_loses_no_grain_and_gives_none_twice() {
    assert!(explore(3, 0, 1) > 50);
    assert!(explore(3, 0, 0) > 20);
}

#[test]
fn loom_two_workers_without_grains_steal_each_grain_once() {
    assert!(explore(3, 1, 1) > 20 && explore(3, 1, 2) > 50);
}

/// A pool with one helper, on CPU 1, while `f` runs on CPU 0.
fn with_helper(f: impl FnOnce(&WorkerPool<'static, TestMachine>)) {
    with_leaked(TestMachine::with_cpus(1, 2), |machine| {
        machine.run_as(0);
        let workers = WorkerPool::spawn(machine, &mut Heap).unwrap();
        workers.set_poll_limit(PollLimit::NONE);
        workers.set_max_helpers(1);
        workers.set_max_helpers_on(NodeId(0), 1);
        assert!(!workers.has_helper_racy(CpuId(1)));
        let helper = thread::spawn(|| {
            machine.run_as(1);
            machine.run_helper();
        });
        while !workers.has_helper_racy(CpuId(1)) {
            thread::yield_now();
        }
        f(&workers);
        drop(workers);
        helper.join().unwrap();
    });
}

/// Units are done once if all is well, and exactly what was done is undone if the second unit fails.
#[test]
fn loom_a_job_does_each_unit_once_or_undoes_it() {
    let by_helper: &'static AtomicUsize = Box::leak(Box::default());
    run_model(2, || {
        with_helper(|workers| {
            let done = [const { AtomicU32::new(0) }; 2];
            let undo = |range: std::ops::Range<u64>| {
                range.for_each(|unit| assert_eq!(done[unit as usize].fetch_sub(1, Relaxed), 1));
            };
            let job = Job::new(0..2, |chunk: &Chunk<'_>| {
                by_helper.fetch_add(chunk.worker() as usize, Relaxed);
                for unit in chunk.range() {
                    if unit == 1 {
                        return Err(());
                    }
                    assert_eq!(done[unit as usize].fetch_add(1, Relaxed), 0);
                    chunk.done_to(unit + 1);
                }
                Ok(())
            });
            assert_eq!(workers.run(&job.undo(&undo)), Err(Failed::Error(())));
            assert!(done.iter().all(|unit| unit.load(Relaxed) == 0));
        });
    });
    assert!(by_helper.load(Relaxed) > 0);
}

/// One CPU does both parts; the caller submits two items, of which one has room, and waits.
#[test]
fn loom_an_ordered_queue_finishes_in_order_and_loses_no_wake_up() {
    let by_helper: &'static AtomicUsize = Box::leak(Box::default());
    run_model(2, || {
        with_helper(|workers| {
            let (next, mut set) = (AtomicU32::new(0), CpuMask::<[u64; 1]>::new());
            set.insert(CpuId(1));
            let parallel = |_: &mut u32| {
                by_helper.fetch_add(TestCpu::id().index(), Relaxed);
            };
            let serial = |item| assert_eq!(next.fetch_add(1, Relaxed), item, "out of order");
            let opened = workers.ordered::<u32, _, _, _, 1>((&set, &set), parallel, serial, |queue| {
                (0..2).for_each(|item| queue.submit(item, CpuId(1)));
            });
            assert!(opened.is_ok_and(|((), finished)| finished.submitted == 2) && next.load(Relaxed) == 2);
        });
    });
    assert!(by_helper.load(Relaxed) > 0);
}
