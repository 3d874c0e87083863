//! Deferred against eager initialisation, in random worlds.

use super::*;
use crate::frame::tests::Dice;
use crate::frame::{AllocRequest, BootError, BootMap, Kind, Priority, RecordInit, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine, played};
use crate::units::{NodeId, PAGE_SIZE};
use crate::work::WorkerPool;
use core::convert::Infallible;
use core::sync::atomic::Ordering::Relaxed;
use std::vec::Vec;

type TestMemory<'m> = Memory<'m, TestMachine>;

/// Frames of the machines here: from the start of a section into the one after the next.
const FRAMES: u64 = 72_000;

fn region(machine: &TestMachine, from: u64, to: u64, kind: RegionKind, node: u64) -> Region {
    let start = machine.frames().start.add(from).addr();
    Region { start, len_bytes: (to - from) * PAGE_SIZE as u64, kind, node: NodeId(node as u32) }
}

/// A map with regions, holes and borders between nodes at any frame, many of them in one block.
fn random_map(machine: &TestMachine, dice: &mut Dice) -> Vec<Region> {
    let (mut at, mut node, mut regions) = (dice.roll(40_000), dice.roll(3), Vec::new());
    let lengths = [3, 40, 700, 2500, 6000];
    for _ in 0..1 + dice.roll(14) {
        let most = lengths[dice.roll(5) as usize];
        let end = (at + 1 + dice.roll(most)).min(FRAMES);
        let kind = match dice.roll(10) {
            0 | 1 => RegionKind::Reserved,
            2 => RegionKind::Usable(Init::Zeroed),
            _ => RegionKind::Usable(Init::Dirty),
        };
        regions.push(region(machine, at, end, kind, node));
        at = end + [0, 0, 1, dice.roll(3000)][dice.roll(4) as usize];
        node = if dice.roll(3) == 0 { dice.roll(3) } else { node };
        if at >= FRAMES {
            break;
        }
    }
    regions
}

/// Fills memory with the contents that its region names, where boot memory will be allocated: at the end of
/// the last region that has enough, or of any, where records lie on the nodes of their frames.
fn fill(machine: &TestMachine, regions: &[Region]) {
    let span = BootMap::new(regions).unwrap().span().map_or(0, |span| span.len());
    let most = (span + 4096) * 32;
    for region in regions.iter().rev() {
        let len = region.len_bytes.min(most);
        let at = machine.window(crate::units::PhysAddr(region.start.0 + region.len_bytes - len));
        let byte = if region.usable() == Some(Init::Zeroed) { 0 } else { 0xA5 };
        // SAFETY: the bytes lie in the machine's arena, and no memory of it is in use now.
        unsafe { at.write_bytes(byte, len as usize) };
        let is_enough = !machine.has_record_windows.load(Relaxed) && len == most;
        if region.usable().is_some() && is_enough {
            break;
        }
    }
}

fn deferred<'m>(machine: &'m TestMachine, regions: &[Region]) -> Result<TestMemory<'m>, BootError> {
    fill(machine, regions);
    Memory::start(BootMap::new(regions).unwrap().claim(machine)?, RecordInit::Deferred)
}

/// The same boot memory, with every record initialised and every frame freed to its zone at start.
fn eager<'m>(machine: &'m TestMachine, regions: &[Region]) -> Result<TestMemory<'m>, BootError> {
    fill(machine, regions);
    Memory::build(BootMap::new(regions).unwrap().claim(machine)?, RecordInit::Deferred, |setup, map| {
        // SAFETY: all records of a table that nothing else uses yet.
        unsafe { setup.table.clear(setup.table.span()) };
        for (range, (_, init)) in setup.zone_ranges.iter().zip(map.usable()) {
            setup.zones[range.zone as usize].free_range(&setup.table, range.frames, init);
        }
        setup.deferred.ranges = &[];
        setup.deferred.note_written_at_start(setup.table.span());
    })
}

/// Frees everything, the zero page too: the rest does not depend on the order of allocations.
fn undo_allocations(memory: &TestMemory<'_>) {
    let zero = memory.zero_frame();
    let meta = memory.meta(zero).unwrap();
    assert_eq!(meta.state().kind(), Kind::Zero);
    meta.set_state(crate::frame::FrameState::TAKEN_FRAME);
    memory.free_frame(zero, Init::Dirty);
    memory.drain();
}

fn assert_equal(ours: &TestMemory<'_>, theirs: &TestMemory<'_>, seed: u64) {
    assert_eq!(ours.span(), theirs.span());
    undo_allocations(ours);
    undo_allocations(theirs);
    for pfn in (ours.span().start.0..ours.span().end.0).map(Pfn) {
        let record = |memory: &TestMemory<'_>| {
            let meta = memory.meta(pfn).unwrap();
            let state = meta.state();
            // Frames of the batch that the zero page came from were freed inside of blocks, which may differ
            // here; the counts say how many frames are really in a cache.
            let kind = if state.may_lie_inside() { Kind::Reserved } else { state.kind() };
            (kind, state.order(), state.refcount(), meta.mapcount(), meta.pincount())
        };
        assert_eq!(record(ours), record(theirs), "seed {seed}, {pfn:?}");
    }
    let (ours, theirs) = (ours.check().unwrap(), theirs.check().unwrap());
    assert_eq!(ours, theirs, "seed {seed}");
    assert_eq!((ours.deferred, ours.cached, ours.allocated), (0, 0, 0));
}

fn finish(memory: &TestMemory<'_>) {
    let workers = WorkerPool::without_helpers(memory.machine());
    memory.deferred().initialise(&workers, 0, &|| false, &|_| ()).unwrap();
}

/// Initialises deferred blocks of every zone on demand, until none is left.
fn initialise_all_on_demand(memory: &TestMemory<'_>) {
    for zone in memory.zones() {
        while memory.deferred().initialise_on_demand(zone, Order::BASE, Priority::Reserve) {}
    }
}

/// One of the ways in which all records can be initialised.
fn initialise_all(memory: &TestMemory<'_>, dice: &mut Dice, way: u64) {
    match way {
        0 => (),
        1 => initialise_all_on_demand(memory),
        2 => {
            for _ in 0..dice.roll(9) {
                let ranges = memory.deferred.ranges();
                let Some(range) = ranges.get(dice.roll(8) as usize) else { continue };
                let section = range.frames.start.0 / SECTION_FRAMES + dice.roll(3);
                memory.deferred().initialise_blocks(range, section, 1 + dice.roll(5) as u32);
            }
        }
        _ => std::thread::scope(|scope| {
            scope.spawn(|| {
                TestCpu::become_cpu(1);
                finish(memory);
            });
            initialise_all_on_demand(memory);
        }),
    }
    finish(memory);
}

#[test]
fn random_maps_are_initialised_as_if_at_once() {
    let mut machines = [TestMachine::with_cpus(FRAMES, 2), TestMachine::with_cpus(FRAMES, 2)];
    let (mut deferred_frames, mut compared) = (0, 0);
    let cases = played(1_500, 10_000);
    for seed in 0..cases {
        machines.iter_mut().for_each(TestMachine::unclaim_memory);
        // One in eight on a machine with record windows: filling its memory takes long.
        machines.iter().for_each(|machine| machine.has_record_windows.store(seed % 8 == 0, Relaxed));
        let mut dice = Dice(seed);
        let regions = random_map(&machines[0], &mut dice);
        let (ours, theirs) = (deferred(&machines[0], &regions), eager(&machines[1], &regions));
        let (ours, theirs) = match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (ours, theirs) => {
                assert_eq!(ours.err(), theirs.err());
                continue;
            }
        };
        deferred_frames += ours.deferred().frames();
        compared += 1;
        ours.check().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let way = if seed % 16 < 2 { 3 } else { seed % 3 };
        initialise_all(&ours, &mut dice, way);
        assert_eq!(ours.deferred().frames(), 0);
        assert_equal(&ours, &theirs, seed);
    }
    assert!(
        compared > cases * 9 / 10 && deferred_frames > cases * 2_000,
        "{compared} worlds, {deferred_frames} frames"
    );
}

/// One region of dirty memory.
fn plain(machine: &TestMachine, from: u64, to: u64) -> TestMemory<'_> {
    deferred(machine, &[region(machine, from, to, RegionKind::Usable(Init::Dirty), 0)]).unwrap()
}

#[test]
fn the_records_initialised_at_start_do_not_depend_on_the_amount_of_memory() {
    let mut machine = TestMachine::new(FRAMES);
    let mut at_start = |frames| {
        machine.unclaim_memory();
        let memory = plain(&machine, 100, frames);
        memory.stats().managed - memory.stats().deferred
    };
    let all = [10_000, 20_000, 40_000, 70_000].map(&mut at_start);
    assert!(all.iter().all(|&frames| frames < 4 * 1024), "{all:?}");
}

#[test]
fn the_first_allocation_initialises_no_records_for_the_reserve() {
    const MANY: u64 = 400_000;
    let machine = TestMachine::new(MANY);
    let memory = plain(&machine, 0, MANY);
    let usable = |range: &&DeferredRange<TestCpu>| range.usable.is_some();
    let planned: u64 = memory.deferred.ranges().iter().filter(usable).map(|s| s.frames.len()).sum();
    let stats = memory.stats();
    assert_eq!(stats.deferred, planned);
    // The frames initialised at start are fewer than the reserve, so a reserve of those would have needed
    // more.
    let at_start = stats.managed - stats.deferred - 1024;
    assert!(at_start < memory.zones()[0].watermark().min, "{at_start}");
}

#[test]
fn free_frames_are_used_up_before_more_are_initialised_though_the_reserve_is_larger() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, FRAMES);
    let (planned, free) = (memory.deferred().frames(), memory.stats().free() + memory.stats().cached);
    let take = || memory.alloc_frame(AllocRequest::DIRTY).unwrap();
    let mut held: Vec<_> = (0..free).map(|_| take()).collect();
    assert_eq!((memory.deferred().frames(), memory.stats().free()), (planned, 0));
    held.push(take());
    assert!(memory.deferred().frames() < planned);
    held.into_iter().for_each(drop);
    memory.check().unwrap();
}

#[test]
fn an_allocation_that_finds_no_frame_initialises_whole_blocks_of_its_zone() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, FRAMES);
    let before = memory.deferred().frames();
    let held: Vec<_> = (0..4).map(|_| memory.alloc(Order::MAX, AllocRequest::DIRTY).unwrap()).collect();
    let initialised = before - memory.deferred().frames();
    assert!(
        (3 * 1024..=4 * 1024).contains(&initialised) && initialised.is_multiple_of(1024),
        "{initialised}"
    );
    memory.check().unwrap();
    held.into_iter().for_each(drop);
    memory.check().unwrap();
}

#[test]
fn every_frame_is_allocated_once_without_a_job() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 17, 50_000);
    let mut held = Vec::new();
    while let Some(pfn) = memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve)) {
        held.push(pfn);
    }
    assert_eq!(held.len() as u64 + 1, memory.stats().managed);
    assert_eq!(memory.deferred().frames(), 0);
    held.sort_by_key(crate::frame::Frame::pfn);
    assert!(held.windows(2).all(|pair| pair[0].pfn() < pair[1].pfn()));
    held.into_iter().for_each(drop);
    memory.drain();
    assert_eq!(memory.check().unwrap().allocated, 1);
}

#[test]
fn a_request_that_may_not_wait_neither_initialises_nor_waits() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, 20_000);
    let before = memory.deferred().frames();
    let spare = AllocRequest::DIRTY.with_priority(Priority::NoWait);
    let held: Vec<_> = core::iter::from_fn(|| memory.alloc_frame(spare)).collect();
    assert!(held.len() < 4096 && !held.is_empty());
    assert_eq!(memory.deferred().frames(), before);
    held.into_iter().for_each(drop);
    memory.check().unwrap();
}

#[test]
fn the_reserve_counts_all_memory_and_not_only_initialised_frames() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, FRAMES);
    let min = memory.zones()[0].watermark().min;
    let mut held: Vec<_> = core::iter::from_fn(|| memory.alloc_frame(AllocRequest::DIRTY)).collect();
    assert_eq!((memory.stats().free() + memory.stats().deferred, memory.stats().cached), (min, 0));
    held.extend(core::iter::from_fn(|| {
        memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve))
    }));
    assert_eq!(held.len() as u64 + 1, memory.stats().managed);
    held.into_iter().for_each(drop);
    memory.check().unwrap();
}

#[test]
fn a_mishap_in_a_deferred_world_fails_one_allocation_and_loses_nothing() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, 30_000);
    for nth in [1, 2, 500, 1500, 2500] {
        memory.plan_mishap(nth);
        let got: Vec<_> = (1..=3000).map(|_| memory.alloc_frame(AllocRequest::DIRTY)).collect();
        assert!((1..=3000).all(|n| got[n as usize - 1].is_none() == (n == nth)));
        memory.check().unwrap();
        got.into_iter().flatten().for_each(drop);
    }
    finish(&memory);
    memory.check().unwrap();
}

#[test]
fn a_cancelled_job_leaves_blocks_that_allocations_find() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, FRAMES);
    let asked = std::sync::Mutex::new(0);
    let stop = || {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        *asked > 1
    };
    let workers = WorkerPool::without_helpers(&machine);
    let ended: Result<(), crate::work::Failed<Infallible>> =
        memory.deferred().initialise(&workers, 0, &stop, &|_| ());
    assert_eq!(ended, Err(crate::work::Failed::Cancelled));
    assert!(memory.deferred().frames() > 0);
    memory.check().unwrap();
    initialise_all_on_demand(&memory);
    assert_eq!((memory.deferred().frames(), memory.check().unwrap().deferred), (0, 0));
}

#[test]
fn a_near_node_is_initialised_before_a_far_one_is_asked_and_a_bound_request_asks_no_other() {
    let machine = TestMachine::new(FRAMES);
    let usable = RegionKind::Usable(Init::Dirty);
    let regions = [(0, 20_000, 1), (20_000, 45_000, 0), (45_000, FRAMES, 2)];
    let memory =
        deferred(&machine, &regions.map(|(from, to, node)| region(&machine, from, to, usable, node)))
            .unwrap();
    let ask = AllocRequest::DIRTY.with_priority(Priority::Reserve);
    let managed = |node| memory.zones().iter().find(|zone| zone.node() == NodeId(node)).unwrap().managed();
    // CPUs are on node 0, whose zone is the second; of equally far zones the next in turn comes first.
    assert_eq!(memory.local_node(crate::units::CpuId(0)), NodeId(0));
    assert_eq!(memory.fallback_order(NodeId(0)).map(|node| node.0).collect::<Vec<_>>(), [0, 2, 1]);
    let held: Vec<_> = core::iter::from_fn(|| memory.alloc_frame(ask))
        .map(|frame| (memory.node_of(frame.pfn()).0, frame))
        .collect();
    let count = |node| held.iter().filter(|(n, _)| *n == node).count() as u64;
    assert_eq!([count(0), count(2), count(1)], [managed(0) - 1, managed(2), managed(1)]);
    assert!(
        held.is_sorted_by_key(|(node, _)| [0, 2, 1][*node as usize]),
        "a far frame came before a near one"
    );
    held.into_iter().for_each(drop);
    memory.drain();
    let only = crate::frame::FramePlacement::Bind(crate::units::NodeMask::of(NodeId(2)));
    let bound: Vec<_> = core::iter::from_fn(|| memory.alloc_frame_from(only, ask)).collect();
    assert!(bound.iter().all(|frame| memory.node_of(frame.pfn()) == NodeId(2)));
    assert_eq!(bound.len() as u64, managed(2));
    bound.into_iter().for_each(drop);
    memory.check().unwrap();
}

#[test]
fn allocations_go_on_while_a_job_writes() {
    let mut machine = TestMachine::with_cpus(FRAMES, 3);
    for seed in 0..8 {
        machine.unclaim_memory();
        let memory = plain(&machine, seed * 100, FRAMES);
        let work = |cpu: u32| {
            machine.run_as(cpu);
            let (mut dice, mut held) = (Dice(seed), Vec::new());
            for _ in 0..8000 {
                let order = Order([0, 0, 0, 3, 9][dice.roll(5) as usize]);
                let room = held
                    .iter()
                    .map(|f: &crate::frame::Folio<'_, TestMachine>| f.order().frames())
                    .sum::<u64>()
                    < 20_000;
                if room && dice.roll(5) < 3 {
                    held.push(memory.alloc(order, AllocRequest::DIRTY).expect("memory is not used up"));
                } else if !held.is_empty() {
                    let folio = held.swap_remove(dice.roll(held.len() as u64) as usize);
                    drop(folio);
                }
            }
            held.into_iter().for_each(drop);
        };
        std::thread::scope(|scope| {
            (1..3).for_each(|cpu| drop(scope.spawn(move || work(cpu))));
            finish(&memory);
        });
        memory.drain();
        let counts = memory.check().unwrap();
        assert_eq!((counts.deferred, counts.allocated), (0, 1));
    }
}
