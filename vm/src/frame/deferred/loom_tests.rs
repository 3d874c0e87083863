//! The boundary between a helper and growth, in every order.

use super::*;
use crate::frame::{AllocRequest, BootMap, Folio, Priority, RecordInit, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, lend};
use crate::units::{NodeId, PAGE_SIZE};

type TestMemory = Memory<'static, TestMachine>;

/// One block at start, `waiting` that wait, and a last one whose end holds the records.
fn world(waiting: u64) -> TestMemory {
    let machine = TestMachine::leaked((waiting + 2) * Order::MAX.frames(), 2);
    let region = Region {
        start: machine.frames().start.addr(),
        len_bytes: machine.frames().len() * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    let memory = Memory::start(machine, BootMap::new(&[region]).unwrap(), RecordInit::Deferred).unwrap();
    assert_eq!(memory.deferred_frames(), waiting * Order::MAX.frames());
    memory
}

/// The free blocks of the largest order, and what the section's word calls raw.
fn blocks(memory: &TestMemory) -> (u64, u32) {
    let stretch = &memory.deferred.stretches()[0];
    let section = stretch.next();
    (
        memory.zones()[0].free_blocks()[Order::MAX.0 as usize],
        memory.deferred.sections.raw(section, stretch.plan.frames),
    )
}

#[test]
fn loom_helper_and_growth_share_the_blocks_of_a_section() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        lend(world(3), |memory| {
            let before = blocks(memory).0;
            let helper = loom::thread::spawn(move || {
                TestCpu::become_cpu(1);
                let stretch = &memory.deferred.stretches()[0];
                memory.settle(stretch, stretch.next(), 2)
            });
            let grew = memory.grow(&memory.zones()[0], Order::BASE, Priority::Reserve);
            let settled = u64::from(helper.join().unwrap());
            let (free, raw) = blocks(memory);
            assert!(grew && settled > 0);
            assert_eq!(free - before + u64::from(raw.count_ones()), 3, "a block was given twice, or lost");
            assert_eq!(memory.deferred_frames(), u64::from(raw.count_ones()) * Order::MAX.frames());
        });
    });
}

#[test]
fn loom_an_allocation_waits_for_the_block_that_a_helper_is_at() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        lend(world(1), |memory| {
            let take = || {
                memory
                    .alloc(Order::MAX, AllocRequest::DIRTY.with_priority(Priority::Reserve))
                    .map(Folio::into_pfn)
            };
            // Those that are there from the start are gone.
            let at_start = core::iter::from_fn(|| {
                let raw = blocks(memory);
                (raw.0 > 0).then(take).flatten()
            });
            let held = at_start.count() as u64;
            // A cache that has something to drain would hide a look that came too early.
            memory.drain();
            let helper = loom::thread::spawn(move || {
                TestCpu::become_cpu(1);
                let stretch = &memory.deferred.stretches()[0];
                memory.settle(stretch, stretch.next(), 8);
            });
            let last = take().expect("the block was raw, on its way, or there, and never nowhere");
            helper.join().unwrap();
            assert!(memory.deferred.stretches()[0].plan.frames.contains(last), "{held} were there");
        });
    });
}
