//! A helper of the job against an allocation that initialises on demand, in every order.

use super::*;
use crate::frame::{AllocRequest, BootMap, Folio, FrameState, Priority, RecordInit, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, with_leaked};
use crate::sync::testing::run_model;
use crate::units::{NodeId, PAGE_SIZE};

type TestMemory = Memory<'static, TestMachine>;

/// Runs `test` with a memory of one block at start, `deferred` that are deferred, and a last one whose end
/// holds the records.
fn with_memory(deferred: u64, test: impl FnOnce(&'static TestMemory)) {
    with_leaked(TestMachine::with_cpus((deferred + 2) * Order::MAX.frames(), 2), |machine| {
        with_leaked(start(machine, deferred), test);
    });
}

fn start(machine: &'static TestMachine, deferred: u64) -> TestMemory {
    let region = Region {
        start: machine.frames().start.addr(),
        len_bytes: machine.frames().len() * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(0),
    };
    let boot_memory = BootMap::new(&[region]).unwrap().claim(machine).unwrap();
    let memory = Memory::start(boot_memory, RecordInit::Deferred).unwrap();
    assert_eq!(memory.deferred().frames(), deferred * Order::MAX.frames());
    memory
}

/// The free blocks of the largest order, and the unclaimed blocks of the section.
fn blocks(memory: &TestMemory) -> (u64, u32) {
    let range = &memory.deferred.ranges()[0];
    let section = range.next();
    (
        memory.zones()[0].free_blocks()[Order::MAX.0 as usize],
        memory.deferred.claims.unclaimed(section, range.frames),
    )
}

#[test]
fn loom_helper_and_allocation_share_the_blocks_of_a_section() {
    run_model(2, || {
        with_memory(3, |memory| {
            let before = blocks(memory).0;
            let helper = crate::sync::testing::thread::spawn(move || {
                TestCpu::become_cpu(1);
                let range = &memory.deferred.ranges()[0];
                memory.deferred().initialise_blocks(range, range.next(), 2)
            });
            let on_demand =
                memory.deferred().initialise_on_demand(&memory.zones()[0], Order::BASE, Priority::Reserve);
            let by_helper = u64::from(helper.join().unwrap());
            let (free, unclaimed) = blocks(memory);
            assert!(on_demand && by_helper > 0);
            assert_eq!(
                free - before + u64::from(unclaimed.count_ones()),
                3,
                "a block was freed twice, or lost"
            );
            assert_eq!(memory.deferred().frames(), u64::from(unclaimed.count_ones()) * Order::MAX.frames());
        });
    });
}

#[test]
fn loom_an_allocation_waits_for_the_block_that_a_helper_has_claimed() {
    run_model(2, || {
        with_memory(1, |memory| {
            let take = || {
                memory
                    .alloc(Order::MAX, AllocRequest::DIRTY.with_priority(Priority::Reserve))
                    .map(Folio::into_pfn)
            };
            // Uses up the blocks that are free from the start.
            let at_start = core::iter::from_fn(|| {
                let free = blocks(memory).0;
                (free > 0).then(take).flatten()
            });
            let held = at_start.count() as u64;
            // A cache with frames to drain would hide a search that came too early.
            memory.drain();
            let helper = crate::sync::testing::thread::spawn(move || {
                TestCpu::become_cpu(1);
                let range = &memory.deferred.ranges()[0];
                memory.deferred().initialise_blocks(range, range.next(), 8);
            });
            let last = take().expect("the block was unclaimed, claimed or free, and never lost");
            helper.join().unwrap();
            assert!(memory.deferred.ranges()[0].frames.contains(last), "{held} were there");
        });
    });
}

#[test]
fn loom_a_record_is_found_once_it_is_written() {
    run_model(2, || {
        with_memory(1, |memory| {
            let range = &memory.deferred.ranges()[0];
            let pfn = range.frames.start.add(7);
            // What an earlier system left there.
            memory.table.meta(pfn).unwrap().set_state(FrameState::USER_FRAME);
            let helper = crate::sync::testing::thread::spawn(move || {
                TestCpu::become_cpu(1);
                memory.deferred().initialise_blocks(range, range.next(), 1)
            });
            let inside = |state: FrameState| state.may_lie_inside();
            assert!(memory.meta(pfn).is_none_or(|meta| inside(meta.state())), "found before it was written");
            assert!(memory.try_get(pfn).is_none());
            assert_eq!(helper.join().unwrap(), 1);
            assert!(memory.meta(pfn).is_some_and(|meta| inside(meta.state())), "not found when written");
        });
    });
}
