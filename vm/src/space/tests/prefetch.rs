//! Records that sweeps ask for ahead.

use crate::machine::testing::TestCpu;
use crate::space::tests::world::PAGE;
use crate::space::tests::world::base::{TestSpace, TestVm, frame, map, page, store, with_space};
use crate::units::Pfn;
use std::vec::Vec;

const PAGES: u64 = 20;

fn record_of(vm: &TestVm<'_>, pfn: Pfn) -> usize {
    core::ptr::from_ref(vm.memory().meta(pfn).unwrap()).addr()
}

/// The records of the frames of the pages from the ninth on.
fn records_ahead(vm: &TestVm<'_>, space: &TestSpace<'_>) -> Vec<usize> {
    (8..PAGES).map(|nr| record_of(vm, frame(space, page(nr)))).collect()
}

/// fork, and munmap where another space maps the frames, ask for the record eight slots on.
#[test]
fn sweeps_of_shared_frames_ask_for_the_records_that_they_will_come_to() {
    with_space(|vm, space| {
        map(&space, 0, PAGES);
        (0..PAGES).for_each(|nr| store(&space, page(nr), 1));
        let due = records_ahead(vm, &space);
        let mut child = None;
        assert_eq!(TestCpu::prefetched(|| child = Some(space.fork().unwrap())), due);
        let _running = space.activate(None);
        let asked = TestCpu::prefetched(|| space.unmap(page(0), PAGES * PAGE).unwrap());
        assert_eq!(asked[..due.len()], due);
    });
}

#[test]
fn a_sweep_of_exclusive_frames_asks_for_none() {
    with_space(|_, space| {
        map(&space, 0, PAGES);
        (0..PAGES).for_each(|nr| store(&space, page(nr), 1));
        assert_eq!(TestCpu::prefetched(|| space.unmap(page(0), PAGES * PAGE).unwrap()), []);
    });
}
