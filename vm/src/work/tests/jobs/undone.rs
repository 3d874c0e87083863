//! Jobs that fail, panic, are cancelled or break off: each unit is undone exactly where it was done.

use super::*;
use core::time::Duration;
use std::time::Instant;

#[test]
fn an_error_stops_the_job_and_undoes_exactly_what_was_done() {
    with_helpers(2, |workers| {
        for bad in 0..200 {
            let (counts, undone) = (Counts::new(200), AtomicU32::new(0));
            let undo = |range: core::ops::Range<u64>| {
                undone.fetch_add(1, Relaxed);
                counts.add(range, -1);
            };
            let job = Job::new(0..200, |chunk: &Chunk<'_>| {
                for at in chunk.range() {
                    if at == bad {
                        return Err(at);
                    }
                    counts.add(at..at + 1, 1);
                    chunk.done_to(at + 1);
                }
                Ok(())
            });
            assert_eq!(workers.run(&job.undo(&undo)), Err(Failed::Error(bad)));
            assert!(counts.is_once(0..0), "bad {bad}");
        }
    });
}

#[test]
fn a_chunk_that_says_nothing_of_its_progress_is_not_undone_when_it_fails() {
    with_helpers(0, |workers| {
        let undone = Mutex::new(Vec::new());
        let undo = |range| undone.lock().unwrap().push(range);
        let job = Job::new(0..30, |chunk: &Chunk<'_>| if chunk.start < 10 { Ok(()) } else { Err(()) });
        // With `stop_if` the job is cut into chunks, also without helpers.
        let stop = || false;
        assert_eq!(workers.run(&job.undo(&undo).min_chunk(10).stop_if(&stop)), Err(Failed::Error(())));
        assert_eq!(undone.into_inner().unwrap().pop(), Some(0..10));
    });
}

#[test]
fn a_panic_of_a_helper_reaches_the_caller_as_an_error_and_the_helper_can_come_back() {
    with_helpers(1, |workers| {
        for _ in 0..5 {
            let (counts, here) = (Counts::new(2), AtomicU32::new(0));
            let undo = |range| counts.add(range, -1);
            let job = Job::new(0..2, |chunk: &Chunk<'_>| {
                // One chunk with both units: the helper has not come back from its last panic.
                if chunk.range() != (0..2) {
                    meet(&here);
                    assert_eq!(chunk.worker(), 0, "on purpose");
                }
                counts.add(chunk.range(), 1);
                Ok::<(), ()>(())
            });
            let job = job.undo(&undo);
            let failed = loop {
                match workers.run(&job) {
                    Ok(spent) => assert_eq!(spent.helpers, 0),
                    Err(failed) => break failed,
                }
                assert!(counts.is_once(0..2));
                counts.add(0..2, -1);
                thread::yield_now();
            };
            assert_eq!(failed, Failed::Panicked);
            assert!(counts.is_once(0..0));
        }
    });
}

#[test]
fn a_panic_of_the_caller_goes_on_after_the_helpers_have_left_and_the_work_is_undone() {
    with_helpers(1, |workers| {
        let (counts, here) = (Counts::new(2), AtomicU32::new(0));
        let undo = |range| counts.add(range, -1);
        let job = Job::new(0..2, |chunk: &Chunk<'_>| {
            meet(&here);
            assert_eq!(chunk.worker(), 2, "on purpose");
            counts.add(chunk.range(), 1);
            Ok::<(), ()>(())
        });
        assert!(catch_unwind(AssertUnwindSafe(|| workers.run(&job.undo(&undo)))).is_err());
        assert!(counts.is_once(0..0));
        here.store(0, SeqCst);
        let again = Job::new(0..2, |_: &Chunk<'_>| {
            meet(&here);
            Ok::<(), ()>(())
        });
        assert_eq!(workers.run(&again).unwrap().helpers, 1);
    });
}

#[test]
fn a_job_that_is_cancelled_is_undone() {
    with_helpers(2, |workers| {
        let (counts, enough) = (Counts::new(500), AtomicBool::new(false));
        let undo = |range| counts.add(range, -1);
        let job = Job::new(0..500, |chunk: &Chunk<'_>| {
            counts.add(chunk.range(), 1);
            enough.store(chunk.start > 100, Relaxed);
            Ok::<(), ()>(())
        });
        let stop = || enough.load(Relaxed);
        assert_eq!(workers.run(&job.undo(&undo).stop_if(&stop)), Err(Failed::Cancelled));
        assert!(counts.is_once(0..0));
    });
}

/// All workers are in the job at once, and each breaks off a chunk when it has done half of it.
#[test]
fn a_job_has_as_many_helpers_as_there_are_and_is_undone_though_all_break_off() {
    const HELPERS: u32 = 70;
    with_helpers(HELPERS, |workers| {
        for round in 0..3 {
            let (here, counts) = (AtomicU32::new(0), Counts::new(71_000));
            let undo = |range| counts.add(range, -1);
            let job = Job::new(0..71_000, |chunk: &Chunk<'_>| {
                let half = chunk.start + (chunk.end - chunk.start) / 2;
                counts.add(chunk.start..half, 1);
                chunk.done_to(half);
                here.fetch_add(1, SeqCst);
                while here.load(SeqCst) <= HELPERS {
                    TestCpu::relax();
                }
                Err(chunk.worker())
            });
            let failed = workers.run(&job.undo(&undo));
            assert!(matches!(failed, Err(Failed::Error(worker)) if worker <= HELPERS + 1), "{failed:?}");
            assert!(counts.is_once(0..0), "round {round}: what was done is not undone, or not only that");
            assert_eq!(here.load(SeqCst), HELPERS + 1, "a worker began two chunks");
        }
    });
}

/// Relaxes until `done`, at most as long.
fn relax_until(most: Duration, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() && began.elapsed() < most {
        TestCpu::relax();
    }
}

/// Long enough for a helper to come that may.
const FOR_HELPER: Duration = Duration::from_millis(10);
/// As long as a test waits for a helper that has to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// One helper breaks off a chunk while the other one still works, and runs a job of its own meanwhile.
#[test]
fn a_helper_that_broke_off_a_chunk_joins_nothing_until_that_is_undone() {
    with_helpers(2, |workers| {
        let (in_outer, ended, joined) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let helpers = AtomicU32::new(u32::MAX);
        let inner = |_: &Chunk<'_>| {
            relax_until(FOR_HELPER, || false);
            Ok::<(), ()>(())
        };
        let counts = Counts::new(3);
        let undo = |range| counts.add(range, -1);
        let outer = Job::new(0..3, |chunk: &Chunk<'_>| {
            let place = in_outer.fetch_add(1, SeqCst);
            while in_outer.load(SeqCst) < 3 {
                TestCpu::relax();
            }
            match (chunk.worker(), place) {
                (0, _) => {
                    while !ended.load(SeqCst) {
                        TestCpu::relax();
                    }
                }
                _ if !joined.swap(true, SeqCst) => {}
                _ => {
                    relax_until(PATIENCE, || chunk.is_stopped() && workers.dispatch().noted_racy() == 1);
                    let spent = workers.run(&Job::new(0..4, inner).undo(&|_| ())).unwrap();
                    helpers.store(spent.helpers, SeqCst);
                    ended.store(true, SeqCst);
                }
            }
            counts.add(chunk.range(), 1);
            chunk.done_to(chunk.end);
            Err(())
        });
        assert_eq!(workers.run(&outer.undo(&undo)), Err(Failed::Error(())));
        assert_eq!(helpers.load(SeqCst), 0, "the other helper joined, whose note is not read");
        assert!(counts.is_once(0..0));
        assert_eq!(workers.dispatch().noted_racy(), 0);
        let here = AtomicU32::new(0);
        let job = Job::new(0..30, |_: &Chunk<'_>| {
            here.fetch_add(1, SeqCst);
            relax_until(PATIENCE, || here.load(SeqCst) > 2);
            Ok::<(), ()>(())
        });
        assert_eq!(workers.run(&job).unwrap().helpers, 2, "both helpers are back");
    });
}
