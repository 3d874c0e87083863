//! A caller that lends its stack and a helper that comes, stays away, pauses, sleeps or is dismissed: all
//! executions with a few preemptions. Sleeping is for real, so a wake-up that is lost is a deadlock.
//!
//! What is lent is loom's cell: loom fails where a visit is not over, and ordered, before the caller uses it
//! again.

use super::*;
use crate::machine::Cpu;
use crate::machine::testing::TestCpu;
use crate::sync::atomic::AtomicU32;
use crate::sync::testing::Heap;
use crate::units::{CpuId, NodeId};
use loom::cell::UnsafeCell;
use loom::thread;
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

type TestBoard = Board<TestCpu>;

fn board() -> Arc<TestBoard> {
    let board = Board::carve(&mut Heap, 2, |_| NodeId(0)).unwrap();
    let board = Arc::new(board);
    // In its place, and touched before threads are spawned: shadows go by address.
    board.set_poll_limit(PollLimit::NONE);
    (0..2).for_each(|cpu| assert!(!board.is_served_racy(CpuId(cpu))));
    // The helper has come: what is before that says nothing.
    board.post(CpuId(1)).word.update(AcqRel, Acquire, word::arrive).unwrap();
    board
}

/// Counts visits where only one at a time may; what comes next is as told.
struct Work {
    visits: UnsafeCell<u32>,
    pauses: u32,
}

// SAFETY: the cell is loom's, which checks who reaches it: what this is here for.
unsafe impl Sync for Work {}

const OVER: u32 = 1000;

impl Work {
    fn new(pauses: u32) -> Self {
        Self { visits: UnsafeCell::new(0), pauses }
    }

    /// What the owner does once nobody can be there.
    fn end(&self) -> u32 {
        // SAFETY: no helper is there or will come: what loom is here to check.
        self.visits.with_mut(|visits| std::mem::replace(unsafe { &mut *visits }, OVER))
    }
}

impl Visit for Work {
    fn visit(&self, me: CpuId, _: u64) -> Then {
        assert_eq!(me, CpuId(1));
        // SAFETY: one helper, and the caller is not there meanwhile: what loom is here to check.
        let visits = self.visits.with_mut(|visits| unsafe {
            *visits += 1;
            *visits
        });
        assert!(visits < OVER, "a visit to work that was taken back");
        if visits <= self.pauses { Then::Pause } else { Then::Leave }
    }
}

/// Lends work once, and says how often it was visited.
fn lend(board: &TestBoard, pauses: u32) -> u32 {
    let work = Work::new(pauses);
    let mut claimed = board.claim(1, [CpuId(1)].into_iter());
    assert_eq!(claimed.cpus().count(), 1);
    claimed.lend(&work, || ());
    drop(claimed);
    work.end()
}

/// Runs `caller` against a helper, and says how often each count of visits came about.
fn explore(preemptions: usize, caller: fn(&TestBoard) -> u32) -> [usize; 3] {
    let seen: &'static [AtomicUsize; 3] = Box::leak(Box::default());
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let board = board();
        let helper = thread::spawn({
            let board = board.clone();
            move || {
                TestCpu::become_cpu(1);
                board.stay(board.post(CpuId(1)), super::round::Round::new(&board, board.post(CpuId(1))));
            }
        });
        let visits = caller(&board);
        board.close();
        helper.join().unwrap();
        seen[visits as usize].fetch_add(1, Relaxed);
    });
    let seen = seen.each_ref().map(|count| count.load(Relaxed));
    std::eprintln!("executions with 0, 1, 2 visits: {seen:?}");
    seen
}

#[test]
fn loom_lent_work_is_left_before_it_is_taken_back() {
    let seen = explore(3, |board| lend(board, 0));
    assert!(seen[..2].iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn loom_a_helper_that_pauses_is_withdrawn_or_comes_back() {
    let seen = explore(2, |board| lend(board, 1));
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn loom_a_slow_helper_visits_what_is_offered_now() {
    let seen = explore(2, |board| {
        lend(board, 0);
        lend(board, 0)
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn loom_a_helper_dismissed_while_lent_to_goes_and_leaves_the_post_to_its_caller() {
    let seen = explore(2, |board| {
        let work = Work::new(1);
        let mut claimed = board.claim(1, [CpuId(1)].into_iter());
        claimed.lend(&work, || board.dismiss(CpuId(1)));
        work.end()
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// Two pieces handed in one after the other; the caller sleeps until each is done. A bell that is not heard
/// is a deadlock.
#[test]
fn loom_a_helper_that_is_rung_for_looks_again() {
    struct Desk {
        handed_in: AtomicU32<TestCpu>,
        done: AtomicU32<TestCpu>,
    }
    impl Visit for Desk {
        fn visit(&self, _: CpuId, _: u64) -> Then {
            while self.done.load(Relaxed) < self.handed_in.load(Acquire) {
                self.done.fetch_add(1, AcqRel);
                self.done.wake(1);
            }
            Then::Leave
        }
    }
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let board = board();
        let desk: &'static Desk =
            Box::leak(Box::new(Desk { handed_in: AtomicU32::new(0), done: AtomicU32::new(0) }));
        // The memory may have been another model's.
        let at = (&raw const *desk).addr();
        crate::sync::forget(at..at + size_of::<Desk>());
        assert_eq!(desk.done.load(Relaxed) + desk.handed_in.load(Relaxed), 0);
        let helper = thread::spawn({
            let board = board.clone();
            move || {
                TestCpu::become_cpu(1);
                board.stay(board.post(CpuId(1)), super::round::Round::new(&board, board.post(CpuId(1))));
            }
        });
        let mut claimed = board.claim(1, [CpuId(1)].into_iter());
        claimed.lend(desk, || {
            for piece in 0..2 {
                desk.handed_in.store(piece + 1, Release);
                board.ring(CpuId(1));
                while desk.done.load(Acquire) == piece {
                    desk.done.sleep_while(piece);
                    TestCpu::relax();
                }
            }
        });
        drop(claimed);
        board.close();
        helper.join().unwrap();
    });
}
