//! Where a helper can be preempted: a thread of low priority may then never run again.

use super::*;
use crate::machine::testing::TestCpu;
use crate::sync::testing::Heap;
use crate::units::CpuMask;
use std::sync::Arc;
use std::sync::atomic::AtomicU32 as Count;
use std::thread;

/// Work that is visited again and again.
struct Visited {
    is_unpreempted: bool,
    visits: Count,
}

impl Work<TestCpu> for Visited {
    fn visit(&self, _: &Visit<'_, TestCpu>) -> Progress {
        self.visits.fetch_add(1, SeqCst);
        Progress::Paused
    }

    fn is_unpreempted(&self) -> bool {
        self.is_unpreempted
    }
}

/// How often a helper can be preempted while it visits, in some visits.
fn preemptible_in_visits(is_unpreempted: bool) -> u32 {
    let dispatch = Arc::new(Dispatch::<TestCpu>::carve(&mut Heap, 2, |_| NodeId(0)).unwrap());
    let work = Visited { is_unpreempted, visits: Count::new(0) };
    let found = Arc::new(Count::new(0));
    let helper = thread::spawn({
        let (dispatch, found) = (dispatch.clone(), found.clone());
        move || {
            TestCpu::become_cpu(1);
            TestCpu::when_preemptible({
                let dispatch = dispatch.clone();
                move || {
                    found.fetch_add(dispatch.slot(0).nr_visits(), SeqCst);
                }
            });
            dispatch.serve();
            assert_eq!(TestCpu::preempt_depth(), 0);
        }
    });
    while !dispatch.has_helper_racy(CpuId(1)) {
        thread::yield_now();
    }
    let cpus: &CpuMask = &CpuMask::from_words([0b11]);
    let published = dispatch.publish(&work, Helpers::idle(1, NodeMask::ALL, cpus), || {
        while work.visits.load(SeqCst) < 5 {
            thread::yield_now();
        }
    });
    assert!(published.is_some());
    dispatch.close();
    helper.join().unwrap();
    found.load(SeqCst)
}

#[test]
fn a_helper_is_not_preempted_from_the_beginning_of_a_visit_to_its_end_where_its_item_says_so() {
    assert_eq!(preemptible_in_visits(true), 0);
    assert!(preemptible_in_visits(false) > 0, "nothing is seen of a visit that may be preempted");
}
