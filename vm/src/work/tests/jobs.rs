//! Jobs with helpers: each unit is done once, by the helpers that the caller may have.

mod undone;

use crate::machine::testing::{TestCpu, TestMachine};
use crate::machine::{Cpu, Rank};
use crate::sync::RawSpinLock;
use crate::sync::testing::Heap;
use crate::units::{CpuId, NodeId, NodeMask};
use crate::work::{Chunk, Failed, Job, PollLimit, WorkerPool};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::*};
use std::thread;
use std::vec::Vec;

type TestPool<'m> = WorkerPool<'m, TestMachine>;

/// Runs `f` on CPU 0 once helpers have arrived on CPUs 1, 2, ...
pub(super) fn with_helpers<R>(helpers: u32, f: impl FnOnce(&TestPool<'_>) -> R) -> R {
    let machine = &TestMachine::with_cpus(1, helpers + 1);
    machine.cpus_per_node.store(2, Relaxed);
    machine.run_as(0);
    thread::scope(|s| {
        let workers = WorkerPool::spawn(machine, &mut Heap).unwrap();
        for cpu in 1..=helpers {
            s.spawn(move || {
                machine.run_as(cpu);
                while catch_unwind(AssertUnwindSafe(|| machine.run_helper())).is_err() {}
            });
        }
        while !(1..=helpers).all(|cpu| workers.has_helper_racy(CpuId(cpu))) {
            thread::yield_now();
        }
        f(&workers)
    })
}

/// For each unit of 0..n, the number of times it was done less the number of times it was undone.
struct Counts(Vec<AtomicI32>);

impl Counts {
    fn new(n: u64) -> Self {
        Self((0..n).map(|_| AtomicI32::new(0)).collect())
    }
    fn add(&self, range: core::ops::Range<u64>, by: i32) {
        self.0[range.start as usize..range.end as usize].iter().for_each(|unit| {
            unit.fetch_add(by, Relaxed);
        });
    }
    /// Whether units of the range were done once and all others never.
    fn is_once(&self, range: core::ops::Range<u64>) -> bool {
        (0..).zip(&self.0).all(|(at, unit)| unit.load(Relaxed) == i32::from(range.contains(&at)))
    }
}

/// A generator of numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % below
    }
}

/// Waits until a second worker is in the job too.
fn meet(here: &AtomicU32) {
    here.fetch_add(1, SeqCst);
    while here.load(SeqCst) < 2 {
        TestCpu::relax();
    }
}

#[test]
fn every_unit_is_done_once_however_a_job_is_cut() {
    for helpers in [0, 1, 3] {
        with_helpers(helpers, |workers| {
            let mut dice = Dice(u64::from(helpers) + 1);
            for round in 0..300 {
                let (start, len) = (dice.roll(100), dice.roll(900));
                let (align, least) = (1 + dice.roll(40), 1 + dice.roll(60));
                let (end, counts) = (start + len, Counts::new(1000));
                let job = Job::new(start..end, |chunk: &Chunk<'_>| {
                    counts.add(chunk.range(), 1);
                    let (from, to) = (chunk.start, chunk.end);
                    assert!(
                        from < to
                            && (from == start || from.is_multiple_of(align))
                            && (to == end || to.is_multiple_of(align))
                    );
                    assert!(from == start || to == end || to - from >= least);
                    if dice_of(from) {
                        thread::yield_now()
                    }
                    Ok::<(), ()>(())
                });
                let spent = workers.run(&job.align(align).min_chunk(least)).unwrap();
                assert!(counts.is_once(start..end), "round {round}: {start}..{end} by {align}, {least}");
                assert!(spent.helpers <= helpers && (len >= 2 * least || spent.helpers == 0));
            }
        });
    }
}

/// Some chunks take longer than others.
fn dice_of(at: u64) -> bool {
    at.is_multiple_of(7)
}

#[test]
fn helpers_are_expedited_in_their_chunks_and_the_caller_is_not() {
    with_helpers(1, |workers| {
        let here = AtomicU32::new(0);
        let job = Job::new(0..2, |chunk: &Chunk<'_>| {
            meet(&here);
            assert_eq!(TestCpu::nr_expedited(), u32::from(chunk.worker() != 0), "{chunk:?}");
            assert_eq!(TestCpu::preempt_depth(), 0);
            Ok::<(), ()>(())
        });
        assert_eq!(workers.run(&job).unwrap().helpers, 1);
    });
}

#[test]
fn a_job_that_is_empty_or_too_small_for_a_second_worker_has_no_helper() {
    with_helpers(2, |workers| {
        let run = |range, least| {
            workers.run(&Job::new(range, |_: &Chunk<'_>| Ok::<(), ()>(())).min_chunk(least)).unwrap().helpers
        };
        assert_eq!([run(0..0, 1), run(7..7, 9), run(3..22, 10), run(0..1, 1)], [0; 4]);
        // Published work is cut into small chunks; a caller without helpers does all in one.
        let chunks = |range, least| {
            let chunks = AtomicU32::new(0);
            let job = Job::new(range, |_: &Chunk<'_>| {
                chunks.fetch_add(1, Relaxed);
                Ok::<(), ()>(())
            });
            workers.run(&job.min_chunk(least)).unwrap();
            chunks.into_inner()
        };
        assert_eq!([chunks(3..22, 10), chunks(0..1, 1), chunks(0..20, 10)], [1, 1, 2]);
        assert!(chunks(0..1000, 10) > 3);
    });
}

#[test]
fn helpers_and_caller_work_at_the_same_time() {
    with_helpers(1, |workers| {
        let here = AtomicU32::new(0);
        let job = Job::new(0..2, |_: &Chunk<'_>| {
            meet(&here);
            Ok::<(), ()>(())
        });
        assert_eq!(workers.run(&job).unwrap().helpers, 1);
    });
}

#[test]
fn nested_and_concurrent_jobs_share_the_helpers() {
    // One of the four CPUs is the second caller's, so its helper joins the first caller's jobs only.
    with_helpers(3, |workers| {
        let counts = Counts::new(3600);
        let machine = workers.machine();
        let run = |from: u64| {
            let outer = Job::new(0..30, |chunk: &Chunk<'_>| {
                let start = from + chunk.start * 60;
                let inner = Job::new(start..from + chunk.end * 60, |chunk: &Chunk<'_>| {
                    counts.add(chunk.range(), 1);
                    Ok::<(), ()>(())
                });
                workers.run(&inner).map(|_| ())
            });
            workers.run(&outer).unwrap();
        };
        thread::scope(|s| {
            s.spawn(|| {
                machine.run_as(3);
                run(1800);
            });
            run(0);
        });
        assert!(counts.is_once(0..3600));
    });
}

#[test]
fn a_job_for_helpers_is_left_to_them_and_done_by_the_caller_where_none_begins() {
    with_helpers(2, |workers| {
        let workers_of = |limit| {
            workers.set_poll_limit(PollLimit(limit));
            let (seen, counts) = (Mutex::new(Vec::new()), Counts::new(100));
            let work = |chunk: &Chunk<'_>| {
                seen.lock().unwrap().push(chunk.worker());
                counts.add(chunk.range(), 1);
                Ok::<(), ()>(())
            };
            let job = Job::new(0..100, work).on_nodes(NodeMask::of(NodeId(1))).for_helpers(true);
            workers.run(&job).unwrap();
            assert!(counts.is_once(0..100));
            seen.into_inner().unwrap()
        };
        // The helper on node 1 is that of CPU 2.
        assert!(workers_of(u32::MAX).iter().all(|&worker| worker == 3));
        // It is there, and may not begin.
        workers.set_max_helpers_on(NodeId(1), 0);
        assert!(workers_of(2).iter().all(|&worker| worker == 0));
        workers.set_max_helpers_on(NodeId(1), 1);
        // One chunk is enough for a helper too.
        let work = |chunk: &Chunk<'_>| if chunk.worker() == 3 { Ok(()) } else { Err(chunk.worker()) };
        let job = Job::new(0..1, work).on_nodes(NodeMask::of(NodeId(1))).for_helpers(true);
        workers.set_poll_limit(PollLimit(u32::MAX));
        assert_eq!(workers.run(&job).map(|spent| spent.helpers), Ok(1));
    });
}

#[test]
fn the_limit_and_the_nodes_select_the_helpers() {
    with_helpers(3, |workers| {
        let meet_on = |nr_workers, job: Job<'static, ()>| {
            let (here, workers_seen) = (AtomicU32::new(0), Mutex::new(Vec::new()));
            let (at_work, most) = (AtomicU32::new(0), AtomicU32::new(0));
            let work = |chunk: &Chunk<'_>| {
                workers_seen.lock().unwrap().push(chunk.worker());
                most.fetch_max(at_work.fetch_add(1, SeqCst) + 1, SeqCst);
                here.fetch_add(1, SeqCst);
                while here.load(SeqCst) < nr_workers {
                    TestCpu::relax();
                }
                (0..5).for_each(|_| thread::yield_now());
                at_work.fetch_sub(1, SeqCst);
                Ok::<(), ()>(())
            };
            let Job { range, align, min_chunk, max_helpers, nodes, .. } = job;
            let job = Job { align, min_chunk, max_helpers, nodes, ..Job::new(range, work) };
            workers.run(&job).unwrap();
            // Helpers at once: one that leaves makes room for another.
            (most.into_inner() - 1, workers_seen.into_inner().unwrap())
        };
        let job = || Job::new(0..40, ());
        let (helpers, workers_seen) = meet_on(2, job().on_nodes(NodeMask::of(NodeId(1))));
        assert!((1..=2).contains(&helpers) && workers_seen.iter().all(|worker| [0, 3, 4].contains(worker)));
        assert_eq!(meet_on(3, job().max_helpers(2)).0, 2);
        workers.set_max_helpers(1);
        assert_eq!(meet_on(2, job()).0, 1);
        workers.set_max_helpers(0);
        assert_eq!(meet_on(1, job()), (0, Vec::from([0])));
        workers.set_max_helpers(u32::MAX);
        assert_eq!(meet_on(4, job()).0, 3);
        workers.set_max_helpers_on(NodeId(1), 1);
        assert_eq!(meet_on(3, job()).0, 2);
        workers.set_max_helpers_on(NodeId(1), 0);
        let (helpers, workers_seen) = meet_on(2, job());
        assert!(helpers == 1 && workers_seen.iter().all(|worker| [0, 2].contains(worker)));
        workers.set_max_helpers_on(NodeId(1), u32::MAX);
        assert_eq!(meet_on(4, job()).0, 3);
        let refused = &workers.machine().refused_helpers;
        refused.store(0b10, Relaxed);
        let (helpers, workers_seen) = meet_on(3, job());
        assert!(helpers == 2 && workers_seen.iter().all(|worker| [0, 3, 4].contains(worker)));
        refused.store(0b1111, Relaxed);
        assert_eq!(meet_on(1, job()), (0, Vec::from([0])));
    });
}

#[test]
fn helpers_hold_what_their_caller_holds() {
    with_helpers(1, |workers| {
        let lock = RawSpinLock::<TestCpu>::new();
        let guard = lock.lock(Rank(5));
        let (here, held) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        let job = Job::new(0..2, |_: &Chunk<'_>| {
            meet(&here);
            held.lock().unwrap().push(TestCpu::with_context(|context| context.held()));
            Ok::<(), ()>(())
        });
        workers.run(&job).unwrap();
        drop(guard);
        here.store(0, SeqCst);
        workers.run(&job).unwrap();
        assert_eq!(*held.lock().unwrap(), [1 << 5, 1 << 5, 0, 0]);
    });
}
