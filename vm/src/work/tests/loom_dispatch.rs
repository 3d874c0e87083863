//! The dispatch itself, in all executions with a few preemptions: a caller that publishes its stack, and
//! helpers that join, park, find it closed, pause or are dismissed; a caller that reserves a worker and
//! notifies it. Threads really sleep, so a lost wake-up is a deadlock.
//!
//! The published item is loom's cell: loom fails where a visit has not ended, ordered before the caller's
//! next use of the cell.

use super::*;
use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, played};
use crate::sync::atomic::AtomicU32;
use crate::sync::testing::thread;
use crate::sync::testing::{Heap, run_model};
use crate::units::{CpuId, CpuMask, NodeId, NodeMask};
use loom::cell::UnsafeCell;
use std::boxed::Box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::vec::Vec;

/// The CPUs of all models.
const ALL: &CpuMask = &CpuMask::from_words([0b111]);

type TestDispatch = Dispatch<'static, TestCpu>;

fn dispatch(nr_cpus: u32) -> Arc<TestDispatch> {
    dispatch_on(nr_cpus, |_| NodeId(0))
}

fn dispatch_on(nr_cpus: u32, node_of: impl Fn(CpuId) -> NodeId) -> Arc<TestDispatch> {
    let dispatch = Arc::new(Dispatch::carve(&mut Heap, nr_cpus, node_of).unwrap());
    // In its place, and touched before threads are spawned: shadows go by address.
    dispatch.set_poll_limit(PollLimit::NONE);
    assert!((0..nr_cpus).all(|cpu| !dispatch.has_helper_racy(CpuId(cpu))));
    assert!((0..dispatch.nr_nodes()).all(|node| dispatch.has_room_racy(NodeId(node))));
    dispatch
}

fn spawn_helper(dispatch: &Arc<TestDispatch>, cpu: u32) -> thread::JoinHandle<()> {
    let dispatch = dispatch.clone();
    thread::spawn(move || {
        TestCpu::become_cpu(cpu);
        dispatch.serve();
    })
}

/// Runs `caller` on CPU 0 against helpers on the others. Returns the executions by number of visits.
fn explore(helpers: u32, preemptions: usize, caller: fn(&TestDispatch) -> u32) -> [usize; 4] {
    let seen: &'static [AtomicUsize; 4] = Box::leak(Box::default());
    run_model(preemptions, move || {
        let dispatch = dispatch(helpers + 1);
        let threads: Vec<_> = (1..=helpers).map(|cpu| spawn_helper(&dispatch, cpu)).collect();
        let visits = caller(&dispatch);
        dispatch.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        seen[visits as usize].fetch_add(1, Relaxed);
    });
    let seen = seen.each_ref().map(|count| count.load(Relaxed));
    std::eprintln!("executions with 0, 1, 2, 3 visits: {seen:?}");
    seen
}

fn wait_for_helper(dispatch: &TestDispatch) {
    while !dispatch.has_helper_racy(CpuId(1)) {
        thread::yield_now();
    }
}

fn nr_parked(dispatch: &TestDispatch) -> u32 {
    dispatch.parked.iter_after(CpuId(0)).count() as u32
}

fn wait_until_parked(dispatch: &TestDispatch, helpers: u32) {
    while nr_parked(dispatch) < helpers {
        thread::yield_now();
    }
}

/// Counts visits where only one at a time may; the first `pauses` of them pause.
struct Counted {
    visits: UnsafeCell<u32>,
    pauses: u32,
    detached: AtomicU32<TestCpu>,
}

// SAFETY: the cell is loom's, which checks every access: that is what these models are for.
unsafe impl Sync for Counted {}

const OVER: u32 = 1000;

impl Counted {
    /// In its own memory, as the stack of one call may be that of the next: shadows go by address.
    fn leaked(pauses: u32) -> &'static Self {
        let counted = Self { visits: UnsafeCell::new(0), pauses, detached: AtomicU32::new(0) };
        fresh(Box::leak(Box::new(counted)))
    }

    /// The number of visits, once no helper can be there.
    fn end(&self) -> u32 {
        // SAFETY: no helper is there or will come: what loom is here to check.
        self.visits.with_mut(|visits| std::mem::replace(unsafe { &mut *visits }, OVER))
    }
}

/// Memory that may have been another model's.
fn fresh<T>(value: &'static T) -> &'static T {
    let at = (&raw const *value).addr();
    crate::sync::forget(at..at + size_of::<T>());
    value
}

impl Work<TestCpu> for Counted {
    fn visit(&self, _: &Visit<'_, TestCpu>) -> VisitEnd {
        // SAFETY: one helper at a time, and the caller is not there meanwhile: what loom is here to check.
        let visits = self.visits.with_mut(|visits| unsafe {
            *visits += 1;
            *visits
        });
        assert!(visits < OVER, "a visit to work that is closed");
        if visits <= self.pauses { VisitEnd::Paused } else { VisitEnd::Exhausted }
    }

    fn detach(&self, _: CpuId) {
        self.detached.fetch_add(1, Relaxed);
    }
}

/// Publishes work once, does `own` meanwhile, and returns the number of visits.
fn publish(dispatch: &TestDispatch, pauses: u32, own: impl FnOnce()) -> u32 {
    let counted = Counted::leaked(pauses);
    dispatch.publish(counted, Helpers::idle(1, NodeMask::ALL, ALL), own).unwrap();
    counted.end()
}

#[test]
fn loom_published_work_is_left_before_its_caller_returns() {
    let seen = explore(1, 3, |dispatch| publish(dispatch, 0, || ()));
    assert!(seen[0] > 0 && seen[1] > 0 && seen[2] == 0, "{seen:?}");
}

#[test]
fn loom_a_helper_that_pauses_comes_back_or_finds_the_work_closed() {
    let seen = explore(1, 2, |dispatch| publish(dispatch, 1, || ()));
    assert!(seen[..3].iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn loom_what_is_published_next_in_the_same_slot_is_visited_as_itself() {
    let seen =
        explore(1, 2, |dispatch| publish(dispatch, 0, thread::yield_now) + publish(dispatch, 0, || ()));
    assert!(seen[..3].iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn loom_a_helper_that_is_dismissed_leaves() {
    let seen = explore(1, 2, |dispatch| publish(dispatch, 1, || dispatch.dismiss(CpuId(1))));
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// Its waiter sees the slot again when it has a helper that stays.
#[test]
fn loom_a_dismissal_ends_though_another_helper_comes_at_once() {
    run_model(2, || {
        let dispatch = dispatch(2);
        let helper = thread::spawn({
            let dispatch = dispatch.clone();
            move || {
                TestCpu::become_cpu(1);
                dispatch.serve();
                dispatch.serve();
            }
        });
        wait_for_helper(&dispatch);
        dispatch.dismiss(CpuId(1));
        dispatch.close();
        helper.join().unwrap();
    });
}

/// Waits, asleep, until `want` threads have arrived.
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

impl Work<TestCpu> for Meeting {
    fn visit(&self, _: &Visit<'_, TestCpu>) -> VisitEnd {
        self.come();
        VisitEnd::Exhausted
    }
}

/// The caller waits in its own part until `helpers` have come, as a long chunk would.
fn meet(dispatch: &TestDispatch, helpers: u32) -> u32 {
    meet_on(dispatch, Helpers::idle(helpers, NodeMask::ALL, ALL), || ())
}

fn meet_on(dispatch: &TestDispatch, helpers: Helpers, own: impl FnOnce()) -> u32 {
    let meeting = fresh(Box::leak(Box::new(Meeting { here: AtomicU32::new(0), want: helpers.max + 1 })));
    assert_eq!(meeting.here.load(Relaxed), 0);
    dispatch.publish(meeting, helpers, || (own(), meeting.come())).unwrap().1.helpers
}

#[test]
fn loom_published_work_is_never_left_to_parked_helpers() {
    let seen = explore(1, 3, |dispatch| meet(dispatch, 1));
    assert!(seen[1] > 0 && seen[0] == 0, "{seen:?}");
}

#[test]
fn loom_work_published_between_a_visit_and_a_sleep_is_visited() {
    let seen = explore(1, 2, |dispatch| meet(dispatch, 1) + meet(dispatch, 1));
    assert!(seen[2] > 0 && seen[..2] == [0, 0], "{seen:?}");
}

#[test]
fn loom_a_helper_that_parks_while_the_limit_is_raised_is_notified() {
    let seen = explore(1, 2, |dispatch| {
        dispatch.set_max_helpers(0);
        meet_on(dispatch, Helpers::idle(1, NodeMask::ALL, ALL), || dispatch.set_max_helpers(1))
    });
    assert!(seen[1] > 0 && seen[0] == 0, "{seen:?}");
}

/// Both helpers are parked when work for both is published, and the caller notifies one (`FANOUT`).
#[test]
fn loom_a_helper_that_joins_notifies_the_next_one() {
    run_model(1, || {
        let dispatch = dispatch(3);
        let threads = [spawn_helper(&dispatch, 1), spawn_helper(&dispatch, 2)];
        wait_until_parked(&dispatch, 2);
        assert_eq!(meet(&dispatch, 2), 2);
        dispatch.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A visit that lasts until the other helper has parked.
struct Blocking<'d> {
    dispatch: &'d TestDispatch,
    /// 1: the visit has begun. 2: the other item is published.
    step: AtomicU32<TestCpu>,
}

impl Work<TestCpu> for Blocking<'_> {
    fn visit(&self, _: &Visit<'_, TestCpu>) -> VisitEnd {
        self.step.store(1, Release);
        while self.step.load(Acquire) < 2 || nr_parked(self.dispatch) < 1 {
            thread::yield_now();
        }
        VisitEnd::Exhausted
    }
}

/// One helper may be at work. The one on node 1 visits the outer item until the one on node 2, for which the
/// inner item is, has parked: that one must be notified when there is room for it. The steps are given, so no
/// preemption is needed.
#[test]
fn loom_a_helper_that_the_limit_kept_from_work_is_notified_when_there_is_room() {
    run_model(0, || {
        let dispatch = dispatch_on(3, |cpu| NodeId(cpu.0));
        dispatch.set_max_helpers(1);
        let threads = [spawn_helper(&dispatch, 1), spawn_helper(&dispatch, 2)];
        wait_until_parked(&dispatch, 2);
        let blocking = Blocking { dispatch: &dispatch, step: AtomicU32::new(0) };
        let one_of = |node: u32| Helpers::idle(1, NodeMask::of(NodeId(node)), ALL);
        let published = dispatch.publish(&blocking, one_of(1), || {
            while blocking.step.load(Acquire) < 1 {
                thread::yield_now();
            }
            let publish_next = || blocking.step.store(2, Release);
            meet_on(&dispatch, one_of(2), publish_next)
        });
        assert!(published.is_some());
        dispatch.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

const CPU_1: &CpuMask = &CpuMask::from_words([0b10]);

/// Reserves the helper, publishes work for it, does `own` meanwhile, and returns the number of visits; `None`
/// where there was no idle helper.
fn publish_for_reserved(dispatch: &TestDispatch, pauses: u32, own: impl FnOnce(&Counted)) -> Option<u32> {
    let reserved = dispatch.reserve(CPU_1);
    if reserved.cpus.is_empty() {
        return None;
    }
    let counted = Counted::leaked(pauses);
    dispatch.publish(counted, Helpers::reserved(reserved.cpus.as_mask()), || own(counted)).unwrap();
    Some(counted.end())
}

#[test]
fn loom_a_reserved_worker_leaves_before_its_caller_returns_and_takes_other_work_then() {
    let seen = explore(1, 2, |dispatch| {
        wait_for_helper(dispatch);
        publish_for_reserved(dispatch, 1, |_| (0..2).for_each(|_| thread::yield_now())).unwrap()
            + meet(dispatch, 1)
    });
    // The meeting is one visit. Of its own item the worker makes none, one, or two: it pauses and comes back.
    assert!(seen[0] == 0 && seen[1..].iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn loom_a_notification_between_two_items_of_a_reserved_worker_is_not_lost() {
    let seen = explore(1, 2, |dispatch| {
        wait_for_helper(dispatch);
        let reserved = dispatch.reserve(CPU_1);
        let helpers = Helpers { max: 1, ..Helpers::reserved(reserved.cpus.as_mask()) };
        meet_on(dispatch, helpers, || ()) + meet_on(dispatch, helpers, || ())
    });
    assert!(seen[2] > 0 && seen[..2] == [0, 0], "{seen:?}");
}

#[test]
fn loom_a_worker_is_busy_or_reserved_and_never_both() {
    let seen = explore(1, played(1, 2), |dispatch| {
        let counted = Counted::leaked(0);
        // A visit to the first item is under way, or none begins.
        let second = || publish_for_reserved(dispatch, 0, |_| ());
        let (reserved, _) = dispatch.publish(counted, Helpers::idle(1, NodeMask::ALL, ALL), second).unwrap();
        counted.end() + reserved.map_or(0, |_| 2)
    });
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn loom_a_reserved_worker_that_is_dismissed_tells_its_caller() {
    let seen = explore(1, 2, |dispatch| {
        let dismiss = |counted: &Counted| {
            dispatch.dismiss(CpuId(1));
            assert_eq!(counted.detached.load(Relaxed), 1);
            assert!(!dispatch.notify(CpuId(1)));
        };
        wait_for_helper(dispatch);
        publish_for_reserved(dispatch, 1, dismiss).unwrap()
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// Two pieces submitted one after the other; the caller sleeps until each is done. A notification that is
/// lost is a deadlock.
#[test]
fn loom_a_worker_that_is_notified_visits_again() {
    struct Pieces {
        submitted: AtomicU32<TestCpu>,
        done: AtomicU32<TestCpu>,
    }
    impl Work<TestCpu> for Pieces {
        fn visit(&self, _: &Visit<'_, TestCpu>) -> VisitEnd {
            while self.done.load(Relaxed) < self.submitted.load(Acquire) {
                self.done.fetch_add(1, AcqRel);
                self.done.wake(1);
            }
            VisitEnd::Exhausted
        }
    }
    run_model(2, || {
        let dispatch = dispatch(2);
        let pieces = Pieces { submitted: AtomicU32::new(0), done: AtomicU32::new(0) };
        let pieces = fresh(Box::leak(Box::new(pieces)));
        assert_eq!(pieces.done.load(Relaxed) + pieces.submitted.load(Relaxed), 0);
        let helper = spawn_helper(&dispatch, 1);
        wait_for_helper(&dispatch);
        let reserved = dispatch.reserve(CPU_1);
        let submit_both = || {
            for piece in 0..2 {
                pieces.submitted.store(piece + 1, Release);
                dispatch.notify(CpuId(1));
                while pieces.done.load(Acquire) == piece {
                    pieces.done.sleep_while(piece);
                    TestCpu::relax();
                }
            }
        };
        dispatch.publish(pieces, Helpers::reserved(reserved.cpus.as_mask()), submit_both).unwrap();
        drop(reserved);
        dispatch.close();
        helper.join().unwrap();
    });
}
