//! The state of a work slot, without threads.

use super::*;
use crate::machine::testing::TestCpu;

const ON_NODES: NodeMask = NodeMask::from_bits(0b110);

fn opened(max: u32) -> State<TestCpu> {
    State::new(core::ptr::null(), max, Some(ON_NODES))
}

#[test]
fn only_an_open_slot_with_room_is_joined_and_only_by_helpers_it_is_for() {
    let mut state = opened(2);
    assert!(!state.join(CpuId(0), Some(NodeId(0))) && !state.join(CpuId(4), None));
    assert!(state.join(CpuId(1), Some(NodeId(1))) && state.joinable_from() == ON_NODES);
    assert!(state.join(CpuId(3), Some(NodeId(2))) && state.joinable_from() == NodeMask::EMPTY);
    assert!(!state.join(CpuId(2), Some(NodeId(2))), "two at once");
    assert!(
        !state.leave(5, false) && state.joinable_from() == ON_NODES && state.join(CpuId(1), Some(NodeId(1)))
    );
    assert!(!opened(0).join(CpuId(1), Some(NodeId(1))), "closed");
}

#[test]
fn reserved_helpers_join_the_slot_that_is_for_them_and_idle_ones_do_not() {
    let mut state = State::<TestCpu>::new(core::ptr::null(), 2, None);
    assert!(!state.join(CpuId(1), Some(NodeId(1))) && state.joinable_from() == NodeMask::EMPTY);
    assert!(state.join(CpuId(3), None) && state.join(CpuId(4), None) && !state.join(CpuId(5), None));
}

#[test]
fn a_helper_joins_only_where_its_cpu_is_in_the_set() {
    let (far, slot) = (CpuId(64 * 63 + 63), WorkSlot::<TestCpu>::new());
    let work = Nothing;
    let item = Item { work: &work, held: 0 };
    let mut cpus = CpuMask::<[u64; 64]>::first(2);
    cpus.insert(far);
    let helpers = Helpers::idle(9, NodeMask::ALL, &cpus);
    // SAFETY: the item stays until the slot is closed below, and no other caller has the slot.
    unsafe { slot.open(&item, helpers) };
    for (cpu, joins) in [(CpuId(1), true), (CpuId(2), false), (CpuId(62), false), (far, true)] {
        assert_eq!(slot.is_for_racy(cpu), joins, "{cpu:?}");
        let worker = WorkerSlot::new(cpu, NodeId(0));
        assert_eq!(slot.join(&worker, false).is_some(), joins, "{cpu:?}");
    }
    assert_eq!(slot.close(0).helpers, 2);
}

struct Nothing;

impl Work<TestCpu> for Nothing {
    fn visit(&self, _: &Visit<'_, TestCpu>) -> VisitEnd {
        VisitEnd::Exhausted
    }
}

#[test]
fn a_slot_whose_work_has_all_begun_is_left_and_not_joined() {
    let mut state = opened(u32::MAX);
    assert!(state.join(CpuId(1), Some(NodeId(1))) && state.join(CpuId(2), Some(NodeId(1))));
    assert!(!state.leave(0, true) && !state.join(CpuId(3), Some(NodeId(1))));
    assert!(!state.leave(0, false) && state.close(false).is_some());
}

#[test]
fn a_slot_is_closed_once_the_last_visit_has_ended_which_wakes_a_caller_that_sleeps() {
    let mut state = opened(9);
    for (cpu, ns) in [(1, 10), (2, 20), (1, 30)] {
        assert!(state.join(CpuId(cpu), Some(NodeId(1))) && !state.leave(ns, false));
    }
    assert!(state.join(CpuId(1), Some(NodeId(1))) && state.join(CpuId(2), Some(NodeId(1))));
    assert_eq!(state.close(false), None);
    assert!(!state.join(CpuId(5), Some(NodeId(1))), "closed");
    assert!(!state.leave(4, false));
    assert_eq!(state.close(true), None);
    assert!(state.leave(u64::MAX, false), "the caller sleeps");
    assert_eq!(state.close(true), Some(Spent { helpers: 2, helper_ns: u64::MAX }));
}

#[test]
fn every_slot_is_taken_once_until_it_is_freed() {
    let slots = NodeSlots::<TestCpu>::new();
    assert!((0..NR_SLOTS).all(|number| slots.take() == Some(number)) && slots.take().is_none());
    slots.free(7);
    assert_eq!((slots.in_use().count(), slots.take(), slots.take()), (63, Some(7), None));
}

#[test]
fn a_slot_takes_two_cache_lines_and_what_its_sets_need_beyond_one_word() {
    let two_sets = 2 * (size_of::<CpuMask<<TestCpu as Cpu>::CpuWords>>() - size_of::<u64>());
    assert_eq!(size_of::<WorkSlot<TestCpu>>(), (128 + two_sets).next_multiple_of(64));
}
