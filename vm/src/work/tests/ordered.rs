//! Ordered queues: every item is finished once, in order, on the CPU asked for.

use super::jobs::with_helpers;
use crate::machine::Cpu;
use crate::machine::testing::TestCpu;
use crate::units::CpuId;
use crate::units::CpuMask;
use crate::work::NotStarted;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::thread;
use std::vec::Vec;

fn cpus(of: &[u32]) -> CpuMask<[u64; 1]> {
    let mut mask = CpuMask::new();
    of.iter().for_each(|&cpu| mask.insert(CpuId(cpu)));
    mask
}

/// The items that were finished, and on which CPU.
type Log = Mutex<Vec<(u64, CpuId)>>;

fn note(log: &Log, item: u64) {
    log.lock().unwrap().push((item, TestCpu::id()));
}

/// Whether 0..n were finished in order.
fn is_in_order(log: &Log, n: u64) -> bool {
    log.lock().unwrap().iter().map(|(item, _)| *item).eq(0..n)
}

/// Some items take longer than others.
fn work(item: &mut u64) {
    (0..*item % 5).for_each(|_| thread::yield_now());
}

#[test]
fn items_are_finished_in_order_on_the_cpus_asked_for() {
    with_helpers(3, |workers| {
        let log = Log::default();
        let (both, serial) = (cpus(&[1, 2]), cpus(&[2, 3]));
        let finished = workers.ordered::<u64, _, _, _, 8>(
            (&both, &serial),
            work,
            |item| note(&log, item),
            |queue| {
                (0..200).for_each(|item| queue.submit(item, CpuId(2 + (item % 2) as u32)));
            },
        );
        assert_eq!(finished.map(|((), finished)| (finished.submitted, finished.lost)), Ok((200, 0)));
        assert!(is_in_order(&log, 200));
        assert!(log.lock().unwrap().iter().all(|&(item, cpu)| cpu == CpuId(2 + (item % 2) as u32)));
    });
}

#[test]
fn a_flush_waits_for_submitted_items_and_a_cpu_outside_of_the_set_is_replaced() {
    with_helpers(2, |workers| {
        let log = Log::default();
        workers
            .ordered::<u64, _, _, _, 4>(
                (&cpus(&[1]), &cpus(&[2])),
                work,
                |item| note(&log, item),
                |queue| {
                    for round in 1..=20 {
                        (0..7).for_each(|item| queue.submit((round - 1) * 7 + item, CpuId(9)));
                        queue.flush();
                        assert!(is_in_order(&log, round * 7));
                    }
                },
            )
            .unwrap();
        assert!(log.lock().unwrap().iter().all(|(_, cpu)| *cpu == CpuId(2)));
    });
}

#[test]
fn where_all_records_are_taken_the_submitter_works() {
    with_helpers(1, |workers| {
        let (here, finished) = (AtomicU32::new(0), AtomicU32::new(0));
        let parallel = |_: &mut u64| {
            if TestCpu::id() == CpuId(0) {
                here.fetch_add(1, SeqCst);
            }
        };
        let serial = |_| {
            finished.fetch_add(1, SeqCst);
            // The only helper is in this function, so only the submitter can have done the parallel parts of
            // the items that fill the queue.
            while here.load(SeqCst) == 0 {
                TestCpu::relax();
            }
        };
        workers
            .ordered::<u64, _, _, _, 2>((&cpus(&[1]), &cpus(&[1])), parallel, serial, |queue| {
                (0..5).for_each(|item| queue.submit(item, CpuId(1)));
            })
            .unwrap();
        assert_eq!(finished.into_inner(), 5);
    });
}

#[test]
fn a_queue_without_a_helper_for_a_part_is_not_opened_and_says_which() {
    with_helpers(2, |workers| {
        let open = |parallel: &[u32], serial: &[u32]| {
            let (parallel, serial) = (cpus(parallel), cpus(serial));
            workers.ordered::<u64, _, _, _, 2>((&parallel, &serial), |_| (), |_| (), |_| ()).err()
        };
        assert_eq!(open(&[], &[1]), Some(NotStarted::NoParallelWorker));
        assert_eq!(open(&[1, 7], &[0, 8]), Some(NotStarted::NoSerialWorker));
        assert_eq!(open(&[1], &[2]), None);
        workers.machine().refused_helpers.store(0b100, Relaxed);
        assert_eq!(open(&[1], &[2]), Some(NotStarted::NoSerialWorker));
        workers.machine().refused_helpers.store(0, Relaxed);
        workers.dismiss(CpuId(1));
        assert_eq!(open(&[1], &[2]), Some(NotStarted::NoParallelWorker));
        assert_eq!(open(&[2], &[2]), None);
    });
}

#[test]
fn the_sets_change_and_cpus_leave_while_items_are_under_way() {
    with_helpers(3, |workers| {
        let log = Log::default();
        let all = cpus(&[1, 2, 3]);
        let ((), finished) = workers
            .ordered::<u64, _, _, _, 8>(
                (&all, &all),
                work,
                |item| note(&log, item),
                |queue| {
                    for item in 0..300 {
                        match item {
                            100 => queue.set_cpus(&cpus(&[2, 3]), &cpus(&[1])).unwrap(),
                            150 => workers.dismiss(CpuId(1)),
                            200 => workers.dismiss(CpuId(2)),
                            250 => workers.dismiss(CpuId(3)),
                            _ => (),
                        }
                        queue.submit(item, CpuId(1));
                    }
                    assert_eq!(queue.set_cpus(&all, &all), Err(NotStarted::NoParallelWorker));
                },
            )
            .unwrap();
        assert!(is_in_order(&log, 300) && finished.submitted == 300);
    });
}

#[test]
fn an_item_whose_parallel_part_panics_is_lost_and_the_others_are_finished_in_order() {
    with_helpers(2, |workers| {
        let log = Log::default();
        let parallel = |item: &mut u64| assert!(TestCpu::id() == CpuId(0) || *item != 3, "on purpose");
        let all = cpus(&[1, 2]);
        let ((), finished) = workers
            .ordered::<u64, _, _, _, 16>(
                (&all, &all),
                parallel,
                |item| note(&log, item),
                |queue| {
                    (0..10).for_each(|item| queue.submit(item, CpuId(1)));
                },
            )
            .unwrap();
        let expected: Vec<u64> = (0..10).filter(|&item| finished.lost == 0 || item != 3).collect();
        assert!(log.lock().unwrap().iter().map(|(item, _)| *item).eq(expected));
    });
}
