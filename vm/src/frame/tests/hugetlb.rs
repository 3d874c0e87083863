//! The pool alone: its counts, the nodes that it takes from, and what comes back.

use super::*;
use crate::frame::tests::{memory, region};
use crate::frame::{BootMap, HugetlbTake, Priority, RegionKind};
use crate::machine::testing::TestMachine;
use crate::units::{NodeId, NodeMask};
use crate::work::WorkerPool;
use std::vec::Vec;

const HUGE: u64 = PageSize::Huge.pages();
const SIZE: PageSize = PageSize::Huge;

fn take<'m>(memory: &'m Memory<'m, TestMachine>, take: HugetlbTake) -> Option<HugetlbFolio<'m, TestMachine>> {
    memory.hugetlb().take(SIZE, FramePlacement::Local, take).ok()
}

fn counts(memory: &Memory<'_, TestMachine>) -> (u64, u64, u64, u64) {
    let HugetlbCounts { total, free, reserved, surplus } = memory.hugetlb().counts(SIZE);
    (total, free, reserved, surplus)
}

#[test]
fn each_node_gives_as_much() {
    let machine = TestMachine::new(24 * HUGE);
    let usable = RegionKind::Usable(Init::Dirty);
    let (near, far) =
        (region(&machine, 0, 16 * HUGE, usable, 0), region(&machine, 16 * HUGE, 24 * HUGE, usable, 1));
    let memory = Memory::new(&machine, BootMap::new(&[near, far]).unwrap()).unwrap();
    let workers = WorkerPool::without_helpers(&machine);
    for workers in [None, Some(&workers)] {
        let on = |node: u32| {
            let zone = memory.zones.iter().find(|zone| zone.node() == NodeId(node)).unwrap();
            zone.hugetlb(0).len()
        };
        assert_eq!(memory.hugetlb().resize(SIZE, 9, workers).total, 9);
        assert_eq!((on(0), on(1)), (5, 4));
        // What one lacks comes from the other.
        assert_eq!(memory.hugetlb().resize(SIZE, 18, workers).total, 18);
        assert!(on(0) > on(1) && on(1) >= 6, "{} and {}", on(0), on(1));
        memory.check().unwrap();
        let bound = FramePlacement::Bind(NodeMask::of(NodeId(1)));
        let folios = || memory.hugetlb().take(SIZE, bound, HugetlbTake::Available).ok();
        let held: Vec<_> = core::iter::from_fn(folios).collect();
        assert!(held.iter().all(|folio| memory.node_of(folio.pfn) == NodeId(1)));
        assert_eq!(on(1), 0);
        drop(held);
        // From the fullest first.
        assert_eq!(memory.hugetlb().resize(SIZE, 2, workers).total, 2);
        assert_eq!((on(0), on(1)), (1, 1));
        assert_eq!(memory.hugetlb().resize(SIZE, 0, workers), HugetlbCounts::default());
        memory.check().unwrap();
    }
}

#[test]
fn a_reserve_is_kept_whoever_else_takes_pages() {
    let machine = TestMachine::new(8 * HUGE);
    let memory = memory(&machine);
    memory.hugetlb().resize(SIZE, 3, None);
    assert!(memory.hugetlb().reserve(SIZE, 2) && !memory.hugetlb().reserve(SIZE, 2));
    let other = take(&memory, HugetlbTake::Available).unwrap();
    assert!(take(&memory, HugetlbTake::Available).is_none());
    let [first, second] = [(); 2].map(|()| take(&memory, HugetlbTake::Reserved).unwrap());
    assert_eq!(counts(&memory), (3, 0, 2, 0), "reserved until they are installed");
    let nothing = memory.hugetlb().try_take(SIZE, FramePlacement::Local, HugetlbTake::Available);
    assert_eq!(nothing.map(drop), Err(NotTaken::Empty));
    let nothing = memory.hugetlb().try_take(SIZE, FramePlacement::Local, HugetlbTake::Reserved);
    assert_eq!(nothing.map(drop), Err(NotTaken::Away));
    drop(first);
    assert_eq!(counts(&memory), (3, 1, 2, 0));
    assert!(take(&memory, HugetlbTake::Available).is_none());
    drop(other);
    assert!(take(&memory, HugetlbTake::Available).is_some());
    memory.hugetlb().unreserve(SIZE, 1);
    drop(second);
    memory.hugetlb().unreserve(SIZE, 1);
    assert_eq!(counts(&memory), (3, 3, 0, 0));
    memory.check().unwrap();
    memory.hugetlb().resize(SIZE, 0, None);
}

/// A fast pin has looked at a page of the pool that has been given up, and its first frame is a program's.
#[test]
fn what_is_no_page_of_the_pool_any_more_is_not_pinned_as_a_part() {
    let machine = TestMachine::new(8 * HUGE);
    let memory = memory(&machine);
    let mapped = memory.alloc_zeroed(Priority::Normal).unwrap().into_mapped();
    let pfn = mapped.pfn();
    let counts = || (memory.meta(pfn).unwrap().pincount(), memory.meta(pfn).unwrap().state().refcount());
    let before = counts();
    drop(memory.try_pin(pfn, true).expect("it may be pinned"));
    for part in [0, 3, HUGE - 1] {
        assert!(memory.pin_part_if_hugetlb(pfn, part, true).is_none());
        assert!(memory.try_pin_part(pfn, part, true).is_none());
        assert_eq!(counts(), before);
    }
    drop(mapped);
    memory.check().unwrap();
}

#[test]
fn zeroed_memory_is_known_to_be_so() {
    let machine = TestMachine::new(8 * HUGE);
    let memory = memory(&machine);
    memory.hugetlb().resize(SIZE, 1, None);
    let mut folio = take(&memory, HugetlbTake::Available).unwrap();
    assert_eq!(folio.init, Init::Dirty);
    machine.write(folio.pfn.add(HUGE - 1), 0, &[1]);
    folio.zero(None);
    let mut byte = [1];
    machine.read(folio.pfn.add(HUGE - 1), 0, &mut byte);
    assert_eq!(byte, [0]);
    drop(folio);
    assert_eq!(take(&memory, HugetlbTake::Available).unwrap().init, Init::Zeroed);
    memory.hugetlb().resize(SIZE, 0, None);
}
