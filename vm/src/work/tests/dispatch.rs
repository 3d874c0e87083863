//! Where a helper can be preempted: one of low priority may then not run for as long as others are ready.

use super::*;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::sync::testing::Heap;
use crate::units::CpuMask;
use std::sync::Arc;
use std::sync::atomic::AtomicU32 as Count;
use std::thread;

/// Work that is visited again and again.
struct Visited(Count);

impl Work<TestCpu> for Visited {
    fn visit(&self, _: &Visit<'_, TestCpu>) -> VisitEnd {
        self.0.fetch_add(1, SeqCst);
        VisitEnd::Paused
    }
}

#[test]
fn a_helper_is_expedited_from_before_a_visit_begins_until_after_its_end() {
    let machine = TestMachine::leaked(1, 2);
    let dispatch = Arc::new(Dispatch::<TestCpu>::carve(&mut Heap, 2, |_| NodeId(0)).unwrap());
    let work = Visited(Count::new(0));
    // Preemptible places, and those of them that are within a visit.
    let (places, in_visits) = (Arc::new(Count::new(0)), Arc::new(Count::new(0)));
    let helper = thread::spawn({
        let (dispatch, places, in_visits) = (dispatch.clone(), places.clone(), in_visits.clone());
        move || {
            machine.run_as(1);
            TestCpu::when_preemptible({
                let dispatch = dispatch.clone();
                move || {
                    places.fetch_add(1, SeqCst);
                    in_visits.fetch_add(dispatch.slot(0).nr_visits(), SeqCst);
                }
            });
            dispatch.serve();
            assert_eq!(TestCpu::preempt_depth(), 0);
        }
    });
    while !dispatch.has_helper_racy(CpuId(1)) {
        thread::yield_now();
    }
    machine.run_as(0);
    let cpus: &CpuMask = &CpuMask::from_words([0b11]);
    dispatch.set_poll_limit(PollLimit::NONE);
    let published = dispatch.publish(&work, Helpers::idle(1, NodeMask::ALL, cpus), || {
        while work.0.load(SeqCst) < 5 {
            thread::yield_now();
        }
    });
    assert!(published.is_some());
    while places.load(SeqCst) == 0 {
        thread::yield_now();
    }
    dispatch.close();
    helper.join().unwrap();
    assert_eq!(in_visits.load(SeqCst), 0);
    machine.run_as(1);
    assert_eq!(TestCpu::nr_expedited(), 0);
}
