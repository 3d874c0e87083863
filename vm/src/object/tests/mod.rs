//! Objects against a plain map of pages, and misuse of a page index.

use super::{FillError, Objects};
use crate::frame::tests::{Dice, memory};
use crate::frame::{Kind, Memory, Priority};
use crate::machine::testing::TestMachine;
use crate::sync::Rcu;
use crate::units::Pfn;
use core::num::NonZeroU64;
use std::collections::BTreeMap;
use std::vec::Vec;

type TestRcu<'m> = Rcu<'m, crate::machine::testing::TestCpu>;
type TestMemory<'m> = Memory<'m, TestMachine>;

const NUMBER: NonZeroU64 = NonZeroU64::MIN;

/// Calls `test` with an object of which `pages` pages are mapped; afterwards, nothing of it may be left.
fn with_object(pages: u64, test: impl FnOnce(&Objects<'_, TestMachine>, &TestMemory<'_>, &TestRcu<'_>)) {
    let machine = TestMachine::new(600);
    let memory = memory(&machine);
    let rcu = Rcu::carve(&mut memory.boot_allocator(), 1).unwrap();
    let objects = Objects::new(&memory, &rcu, None).unwrap();
    let before = memory.check().unwrap().allocated;
    objects.create(&memory, &rcu, NUMBER, (pages, 1)).unwrap();
    test(&objects, &memory, &rcu);
    objects.release(&memory, &rcu, NUMBER);
    assert!(objects.get(NUMBER, &rcu.read()).is_none(), "a dead object has no number");
    rcu.wait(&machine, &memory);
    memory.shrink_slab_pools();
    assert_eq!(memory.check().unwrap().allocated, before);
}

/// Fills a page with a new frame.
fn fill(
    objects: &Objects<'_, TestMachine>,
    memory: &TestMemory<'_>,
    rcu: &TestRcu<'_>,
    page: u64,
) -> Result<Pfn, FillError> {
    let mut frame = memory.alloc_zeroed(Priority::Normal);
    let reading = rcu.read();
    objects.get(NUMBER, &reading).unwrap().fill(memory, page, &mut frame, &reading)
}

/// In a world of small pages at the borders of every height.
#[test]
fn pages_find_their_frames_as_in_a_map_in_whatever_order_they_are_filled() {
    const BORDERS: [u64; 6] = [0, 1 << 9, 1 << 18, 1 << 27, 1 << 36, (1 << 45) - 2];
    for seed in 0..40 {
        with_object(u64::MAX, |objects, memory, rcu| {
            let (mut dice, mut model) = (Dice(seed), BTreeMap::new());
            let heights = 1 + dice.roll(BORDERS.len() as u64);
            let mut page = || BORDERS[dice.roll(heights) as usize].saturating_sub(2) + dice.roll(4);
            for _ in 0..60 {
                let at = page();
                let frame = fill(objects, memory, rcu, at).unwrap();
                assert_eq!(*model.entry(at).or_insert(frame), frame, "page {at:#x}");
                let (at, reading) = (page(), rcu.read());
                let object = objects.get(NUMBER, &reading).unwrap();
                assert_eq!(object.lookup(memory, at, &reading), model.get(&at).copied(), "page {at:#x}");
                if seed % 2 == 0 {
                    let taken = object.take_out(memory, at, &reading).map(|frame| frame.pfn());
                    assert_eq!(taken, model.remove(&at));
                }
            }
        });
    }
}

#[test]
fn one_page_takes_no_node() {
    with_object(1, |objects, memory, rcu| {
        let frame = fill(objects, memory, rcu, 0).unwrap();
        let kinds = memory.span().start.0..memory.span().end.0;
        let kinds: Vec<_> = kinds.filter_map(|pfn| Some(memory.meta(Pfn(pfn))?.state().kind())).collect();
        assert!(!kinds.contains(&Kind::Table));
        let meta = memory.meta(frame).unwrap();
        assert_eq!((meta.state().kind(), meta.owner()), (Kind::Object, (NUMBER.get(), 0)));
    });
}

#[test]
fn a_page_beyond_the_tallest_index_or_the_end_is_refused() {
    with_object(u64::MAX, |objects, memory, rcu| {
        assert_eq!(fill(objects, memory, rcu, 1 << 45), Err(FillError::NoMemory));
    });
    with_object(2, |objects, memory, rcu| {
        fill(objects, memory, rcu, 1).unwrap();
        for page in [2, 1 << 45, u64::MAX] {
            assert_eq!(fill(objects, memory, rcu, page), Err(FillError::Beyond));
            let reading = rcu.read();
            assert_eq!(objects.get(NUMBER, &reading).unwrap().lookup(memory, page, &reading), None);
        }
    });
}

#[test]
fn a_dead_object_takes_no_frame() {
    with_object(2, |objects, memory, rcu| {
        fill(objects, memory, rcu, 1).unwrap();
        let reading = rcu.read();
        let object = objects.get(NUMBER, &reading).unwrap();
        let held = object.unmapped(&mut object.counts.lock(), memory, 1, &reading).unwrap();
        assert_eq!(object.lookup(memory, 1, &reading), None);
        let mut frame = memory.alloc_zeroed(Priority::Normal);
        assert_eq!(object.fill(memory, 0, &mut frame, &reading), Err(FillError::Dead));
        assert!(frame.is_some(), "the frame stays the caller's");
        drop(reading);
        super::page_index::give_back(held.frames, rcu);
    });
}

#[test]
#[should_panic = "an index of another memory"]
fn an_object_is_not_used_with_another_memory() {
    let other_machine = TestMachine::new(64);
    let other = memory(&other_machine);
    with_object(1, |objects, _, rcu| assert!(fill(objects, &other, rcu, 0).is_err()));
}
