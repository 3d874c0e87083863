//! A caller that shows its stack to whoever looks, and helpers that look, sleep, find it gone, pause or are
//! dismissed: all executions with a few preemptions. Sleeping is for real, so a wake-up that is lost is a
//! deadlock.
//!
//! What is shown is loom's cell: loom fails where a visit is not over, and ordered, before the caller uses it
//! again.

use super::*;
use crate::machine::Cpu;
use crate::machine::testing::TestCpu;
use crate::sync::atomic::AtomicU32;
use crate::sync::testing::Heap;
use crate::units::{CpuId, NodeId, NodeMask};
use loom::cell::UnsafeCell;
use loom::thread;
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::vec::Vec;

type TestBoard = Board<TestCpu>;

fn board(nr_cpus: u32) -> Arc<TestBoard> {
    let board = Arc::new(Board::carve(&mut Heap, nr_cpus, |_| NodeId(0)).unwrap());
    // In its place, and touched before threads are spawned: shadows go by address.
    board.set_poll_limit(PollLimit::NONE);
    assert!((0..nr_cpus).all(|cpu| !board.is_served_racy(CpuId(cpu))) && board.could_come_racy() == 0);
    board
}

/// Runs `caller` on CPU 0 against helpers on the others, and says how often each number of visits came about.
fn explore(helpers: u32, preemptions: usize, caller: fn(&TestBoard) -> u32) -> [usize; 4] {
    let seen: &'static [AtomicUsize; 4] = Box::leak(Box::default());
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let board = board(helpers + 1);
        let serve = |cpu| {
            let board = board.clone();
            thread::spawn(move || {
                TestCpu::become_cpu(cpu);
                board.serve();
            })
        };
        let threads: Vec<_> = (1..=helpers).map(serve).collect();
        let visits = caller(&board);
        board.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        seen[visits as usize].fetch_add(1, Relaxed);
    });
    let seen = seen.each_ref().map(|count| count.load(Relaxed));
    std::eprintln!("executions with 0, 1, 2, 3 visits: {seen:?}");
    seen
}

fn terms(seats: u32) -> Terms {
    Terms { seats, nodes: NodeMask::ALL }
}

/// Counts visits where only one at a time may; what comes next is as told.
struct Work {
    visits: UnsafeCell<u32>,
    pauses: u32,
}

// SAFETY: the cell is loom's, which checks who reaches it: what this is here for.
unsafe impl Sync for Work {}

const OVER: u32 = 1000;

impl Visit for Work {
    fn visit(&self, _: CpuId, _: u64) -> Then {
        // SAFETY: one seat, and the caller is not there meanwhile: what loom is here to check.
        let visits = self.visits.with_mut(|visits| unsafe {
            *visits += 1;
            *visits
        });
        assert!(visits < OVER, "a visit to work that was taken back");
        if visits <= self.pauses { Then::Pause } else { Then::Leave }
    }
}

/// Shows work once, does `own` meanwhile, and says how often it was visited.
#[inline(never)]
fn show(board: &TestBoard, pauses: u32, own: impl FnOnce(&Offer<'_, TestCpu>)) -> u32 {
    let work = Exhibit::new(Work { visits: UnsafeCell::new(0), pauses });
    board.show(&work, terms(1), own);
    // SAFETY: no helper is there or will come: what loom is here to check.
    work.what.visits.with_mut(|visits| std::mem::replace(unsafe { &mut *visits }, OVER))
}

#[test]
fn loom_shown_work_is_left_before_it_is_taken_back() {
    let seen = explore(1, 3, |board| show(board, 0, |_| ()));
    assert!(seen[0] > 0 && seen[1] > 0 && seen[2] == 0, "{seen:?}");
}

#[test]
fn loom_a_visitor_that_pauses_comes_back_or_finds_it_gone() {
    let seen = explore(1, 2, |board| show(board, 1, |_| ()));
    assert!(seen[..3].iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn loom_what_is_shown_next_in_the_same_place_is_another_visit() {
    let seen = explore(1, 2, |board| {
        show(board, 0, |offer| {
            offer.close_unvisited();
        }) + show(board, 0, |_| ())
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn loom_a_visitor_that_is_dismissed_goes() {
    let seen = explore(1, 2, |board| show(board, 1, |_| board.dismiss(CpuId(1))));
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// Waits until so many are there, asleep.
struct Meeting {
    here: AtomicU32<TestCpu>,
    want: u32,
}

impl Meeting {
    fn come(&self) {
        self.here.fetch_add(1, AcqRel);
        self.here.wake(u32::MAX);
        loop {
            let here = self.here.load(Acquire);
            if here >= self.want {
                return;
            }
            self.here.sleep_while(here);
            TestCpu::relax();
        }
    }
}

impl Visit for Meeting {
    fn visit(&self, _: CpuId, _: u64) -> Then {
        self.come();
        Then::Leave
    }
}

/// The caller waits in its own part until `helpers` have come, as a long chunk behind the first would.
fn meet(board: &TestBoard, helpers: u32) -> u32 {
    let shown: &'static Exhibit<Meeting, TestCpu> =
        Box::leak(Box::new(Exhibit::new(Meeting { here: AtomicU32::new(0), want: helpers + 1 })));
    // The memory may have been another model's.
    let at = (&raw const *shown).addr();
    crate::sync::forget(at..at + size_of_val(shown));
    let meeting = &shown.what;
    assert_eq!(meeting.here.load(Relaxed), 0);
    let ((), helped) = board.show(shown, terms(helpers), |offer| {
        offer.ask_again(terms(helpers));
        meeting.come();
    });
    helped.helpers
}

#[test]
fn loom_what_goes_on_is_never_left_to_sleepers() {
    let seen = explore(1, 3, |board| meet(board, 1));
    assert!(seen[1] > 0 && seen[0] == 0, "{seen:?}");
}

/// One helper sleeps and another one looks when work for both is shown: the caller wakes nobody, so the one
/// who finds it must.
#[test]
fn loom_who_finds_work_for_more_wakes_the_next() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(1);
    model.check(|| {
        let board = board(3);
        let serve = |cpu| {
            let board = board.clone();
            thread::spawn(move || {
                TestCpu::become_cpu(cpu);
                board.serve();
            })
        };
        let sleeps = serve(1);
        while !board.crowd.somebody_sleeps() {
            thread::yield_now();
        }
        board.set_poll_limit(PollLimit(1));
        let looks = serve(2);
        while board.crowd.present_racy() < 2 {
            thread::yield_now();
        }
        assert_eq!(meet(&board, 2), 2);
        board.close();
        [sleeps, looks].into_iter().for_each(|thread| thread.join().unwrap());
    });
}
