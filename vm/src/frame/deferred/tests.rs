//! Deferred against serial initialisation, in random worlds.

use super::*;
use crate::frame::tests::Dice;
use crate::frame::{AllocRequest, BootError, BootMap, Kind, Priority, RecordInit, Region, RegionKind};
use crate::machine::testing::{TestCpu, TestMachine};
use crate::units::{NodeId, PAGE_SIZE};
use crate::work::WorkerPool;
use core::convert::Infallible;
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

/// What every region says of its memory becomes true, where boot memory will be carved: at the end of the
/// last region with room.
fn fill(machine: &TestMachine, regions: &[Region]) {
    let span = BootMap::new(regions).unwrap().span().map_or(0, |span| span.len());
    let most = (span + 4096) * 32;
    for region in regions.iter().rev() {
        let len = region.len_bytes.min(most);
        let at = machine.window(crate::units::PhysAddr(region.start.0 + region.len_bytes - len));
        let byte = if region.usable() == Some(Init::Zeroed) { 0 } else { 0xA5 };
        // SAFETY: the bytes lie in the machine's arena, and no memory of it is in use now.
        unsafe { at.write_bytes(byte, len as usize) };
        if region.usable().is_some() && len == most {
            break;
        }
    }
}

fn deferred<'m>(machine: &'m TestMachine, regions: &[Region]) -> Result<TestMemory<'m>, BootError> {
    fill(machine, regions);
    Memory::start(machine, BootMap::new(regions).unwrap(), RecordInit::Deferred)
}

/// The same boot memory, with every record written and every frame given at once.
fn serial<'m>(machine: &'m TestMachine, regions: &[Region]) -> Result<TestMemory<'m>, BootError> {
    fill(machine, regions);
    Memory::build(machine, BootMap::new(regions).unwrap(), RecordInit::Deferred, |ground, map| {
        // SAFETY: all records of a table that nobody has yet.
        unsafe { ground.table.clear(ground.table.span()) };
        for (span, (_, init)) in ground.spans.iter().zip(map.usable()) {
            ground.zones[span.zone as usize].add(&ground.table, span.frames, init);
        }
        ground.deferred.stretches = &[];
    })
}

/// Everything given back, the zero page too: what is left does not depend on who came when.
fn undo_allocations(memory: &TestMemory<'_>) {
    let zero = memory.zero_frame();
    let meta = memory.meta(zero).unwrap();
    assert_eq!(meta.state().kind(), Kind::Zero);
    meta.set_state(crate::frame::FrameState::TAKEN_FRAME);
    memory.free_frame(zero);
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
            // Frames of the lot that the zero page came from went back inside of blocks, which may not be the
            // same here; what is really in a cache the census shows.
            let kind = if state.may_lie_inside() { Kind::Reserved } else { state.kind() };
            (kind, state.order(), state.refcount(), meta.mapcount(), meta.pincount())
        };
        assert_eq!(record(ours), record(theirs), "seed {seed}, {pfn:?}");
    }
    let (ours, theirs) = (ours.check().unwrap(), theirs.check().unwrap());
    assert_eq!(ours, theirs, "seed {seed}");
    assert_eq!((ours.deferred, ours.cached, ours.handed_out), (0, 0, 0));
}

fn finish(memory: &TestMemory<'_>) {
    let workers = WorkerPool::without_helpers(memory.machine());
    memory.initialise(&workers, 0, &|| false, &|_| ()).unwrap();
}

/// Grows every zone by whole blocks until there is nothing to grow by.
fn grow_all(memory: &TestMemory<'_>) {
    for zone in memory.zones() {
        while memory.grow(zone, Order::BASE, Priority::Reserve) {}
    }
}

/// One of the ways in which all records can come to be written.
fn write_all(memory: &TestMemory<'_>, dice: &mut Dice, way: u64) {
    match way {
        0 => (),
        1 => grow_all(memory),
        2 => {
            for _ in 0..dice.roll(9) {
                let stretches = memory.deferred.stretches();
                let Some(stretch) = stretches.get(dice.roll(8) as usize) else { continue };
                let section = stretch.plan.frames.start.0 / SECTION_FRAMES + dice.roll(3);
                memory.settle(stretch, section, 1 + dice.roll(5) as u32);
            }
        }
        _ => std::thread::scope(|scope| {
            scope.spawn(|| {
                TestCpu::become_cpu(1);
                finish(memory);
            });
            grow_all(memory);
        }),
    }
    finish(memory);
}

#[test]
fn ten_thousand_random_maps_are_initialised_as_if_at_once() {
    let machines = [TestMachine::with_cpus(FRAMES, 2), TestMachine::with_cpus(FRAMES, 2)];
    let (mut deferred_frames, mut compared) = (0, 0);
    for seed in 0..10_000 {
        let mut dice = Dice(seed);
        let regions = random_map(&machines[0], &mut dice);
        let (ours, theirs) = (deferred(&machines[0], &regions), serial(&machines[1], &regions));
        let (ours, theirs) = match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (ours, theirs) => {
                assert_eq!(ours.err(), theirs.err());
                continue;
            }
        };
        deferred_frames += ours.deferred_frames();
        compared += 1;
        ours.check().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let way = if seed % 16 == 0 { 3 } else { seed % 3 };
        write_all(&ours, &mut dice, way);
        assert_eq!(ours.deferred_frames(), 0);
        assert_equal(&ours, &theirs, seed);
    }
    assert!(
        compared > 9_000 && deferred_frames > 10_000 * 2_000,
        "{compared} worlds, {deferred_frames} frames"
    );
}

/// One region of dirty memory.
fn plain(machine: &TestMachine, from: u64, to: u64) -> TestMemory<'_> {
    deferred(machine, &[region(machine, from, to, RegionKind::Usable(Init::Dirty), 0)]).unwrap()
}

#[test]
fn what_is_written_at_start_does_not_depend_on_how_much_memory_there_is() {
    let machine = TestMachine::new(FRAMES);
    let at_start = |frames| {
        let memory = plain(&machine, 100, frames);
        memory.stats().managed - memory.stats().deferred
    };
    let all = [10_000, 20_000, 40_000, 70_000].map(at_start);
    assert!(all.iter().all(|&frames| frames < 4 * 1024), "{all:?}");
}

#[test]
fn the_first_allocation_writes_no_records_for_the_reserve() {
    const MANY: u64 = 400_000;
    let machine = TestMachine::new(MANY);
    let memory = plain(&machine, 0, MANY);
    let gives = |stretch: &&Stretch<TestCpu>| stretch.plan.gives.is_some();
    let planned: u64 = memory.deferred.stretches().iter().filter(gives).map(|s| s.plan.frames.len()).sum();
    let stats = memory.stats();
    assert_eq!(stats.deferred, planned);
    // It would have had to: what is there falls short of the reserve.
    let at_start = stats.managed - stats.deferred - 1024;
    assert!(at_start < memory.zones()[0].watermark().min, "{at_start}");
}

#[test]
fn what_is_there_is_used_up_before_a_zone_grows_though_the_reserve_is_more() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, FRAMES);
    let (planned, there) = (memory.deferred_frames(), memory.stats().free() + memory.stats().cached);
    let take = || memory.alloc_frame(AllocRequest::DIRTY).unwrap();
    let mut held: Vec<_> = (0..there).map(|_| take()).collect();
    assert_eq!((memory.deferred_frames(), memory.stats().free()), (planned, 0));
    held.push(take());
    assert!(memory.deferred_frames() < planned);
    held.into_iter().for_each(|pfn| memory.free_frame(pfn));
    memory.check().unwrap();
}

#[test]
fn an_allocation_that_cannot_be_met_grows_its_zone_by_whole_blocks() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, FRAMES);
    let before = memory.deferred_frames();
    let held: Vec<_> = (0..4).map(|_| memory.alloc(Order::MAX, AllocRequest::DIRTY).unwrap()).collect();
    let grown = before - memory.deferred_frames();
    assert!((3 * 1024..=4 * 1024).contains(&grown) && grown.is_multiple_of(1024), "{grown}");
    memory.check().unwrap();
    held.into_iter().for_each(|block| memory.free(block));
    memory.check().unwrap();
}

#[test]
fn every_frame_is_handed_out_once_without_a_job() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 17, 50_000);
    let mut held = Vec::new();
    while let Some(pfn) = memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve)) {
        held.push(pfn);
    }
    assert_eq!(held.len() as u64 + 1, memory.stats().managed);
    assert_eq!(memory.deferred_frames(), 0);
    held.sort();
    assert!(held.windows(2).all(|pair| pair[0] < pair[1]));
    held.into_iter().for_each(|pfn| memory.free_frame(pfn));
    memory.drain();
    assert_eq!(memory.check().unwrap().handed_out, 1);
}

#[test]
fn who_can_do_without_neither_grows_nor_waits() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, 20_000);
    let before = memory.deferred_frames();
    let spare = AllocRequest::DIRTY.with_priority(Priority::NoWait);
    let held: Vec<_> = core::iter::from_fn(|| memory.alloc_frame(spare)).collect();
    assert!(held.len() < 4096 && !held.is_empty());
    assert_eq!(memory.deferred_frames(), before);
    held.into_iter().for_each(|pfn| memory.free_frame(pfn));
    memory.check().unwrap();
}

#[test]
fn the_reserve_is_kept_of_all_memory_and_not_of_what_is_written() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, FRAMES);
    let min = memory.zones()[0].watermark().min;
    let mut held: Vec<_> = core::iter::from_fn(|| memory.alloc_frame(AllocRequest::DIRTY)).collect();
    assert_eq!((memory.stats().free() + memory.stats().deferred, memory.stats().cached), (min, 0));
    held.extend(core::iter::from_fn(|| {
        memory.alloc_frame(AllocRequest::DIRTY.with_priority(Priority::Reserve))
    }));
    assert_eq!(held.len() as u64 + 1, memory.stats().managed);
    held.into_iter().for_each(|pfn| memory.free_frame(pfn));
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
        got.into_iter().flatten().for_each(|pfn| memory.free_frame(pfn));
    }
    finish(&memory);
    memory.check().unwrap();
}

#[test]
fn a_job_that_is_given_up_leaves_blocks_that_growth_finds() {
    let machine = TestMachine::new(FRAMES);
    let memory = plain(&machine, 0, FRAMES);
    let asked = core::sync::atomic::AtomicU32::new(0);
    let stop = || asked.fetch_add(1, core::sync::atomic::Ordering::Relaxed) >= 2;
    let workers = WorkerPool::without_helpers(&machine);
    let ended: Result<(), crate::work::Failed<Infallible>> = memory.initialise(&workers, 0, &stop, &|_| ());
    assert_eq!(ended, Err(crate::work::Failed::Cancelled));
    assert!(memory.deferred_frames() > 0);
    memory.check().unwrap();
    grow_all(&memory);
    assert_eq!((memory.deferred_frames(), memory.check().unwrap().deferred), (0, 0));
}

#[test]
fn each_node_is_told_when_it_is_done() {
    let machine = TestMachine::new(FRAMES);
    let usable = RegionKind::Usable(Init::Dirty);
    let regions = [(0, 20_000, 0), (20_000, 45_000, 2), (50_000, FRAMES, 1)];
    let regions = regions.map(|(from, to, node)| region(&machine, from, to, usable, node));
    let memory = deferred(&machine, &regions).unwrap();
    let waiting: Vec<_> = memory.zones().iter().map(|zone| (zone.node(), zone.waiting())).collect();
    let told = std::sync::Mutex::new(Vec::new());
    let workers = WorkerPool::without_helpers(&machine);
    memory
        .initialise(&workers, 0, &|| false, &|done| told.lock().unwrap().push((done.node, done.frames)))
        .unwrap();
    assert_eq!(told.into_inner().unwrap(), waiting);
    assert_eq!(memory.deferred_frames(), 0);
}

#[test]
fn a_near_node_grows_before_a_far_one_is_asked_and_a_bound_request_asks_no_other() {
    let machine = TestMachine::new(FRAMES);
    let usable = RegionKind::Usable(Init::Dirty);
    let regions = [(0, 20_000, 1), (20_000, 45_000, 0), (45_000, FRAMES, 2)];
    let memory =
        deferred(&machine, &regions.map(|(from, to, node)| region(&machine, from, to, usable, node)))
            .unwrap();
    let ask = AllocRequest::DIRTY.with_priority(Priority::Reserve);
    let managed = |node| memory.zones().iter().find(|zone| zone.node() == NodeId(node)).unwrap().managed();
    // CPUs are on node 0, whose zone is the second; of equally far ones the next in turn comes first.
    assert_eq!(memory.home(crate::units::CpuId(0)), NodeId(0));
    assert_eq!(memory.fallback_order(NodeId(0)).map(|node| node.0).collect::<Vec<_>>(), [0, 2, 1]);
    let held: Vec<_> =
        core::iter::from_fn(|| memory.alloc_frame(ask)).map(|pfn| (memory.node_of(pfn).0, pfn)).collect();
    let count = |node| held.iter().filter(|(n, _)| *n == node).count() as u64;
    assert_eq!([count(0), count(2), count(1)], [managed(0) - 1, managed(2), managed(1)]);
    assert!(
        held.is_sorted_by_key(|(node, _)| [0, 2, 1][*node as usize]),
        "a far frame came before a near one"
    );
    held.into_iter().for_each(|(_, pfn)| memory.free_frame(pfn));
    memory.drain();
    let only = crate::frame::FramePlacement::Bind(crate::units::NodeMask::of(NodeId(2)));
    let bound: Vec<_> = core::iter::from_fn(|| memory.alloc_frame_from(only, ask)).collect();
    assert!(bound.iter().all(|&pfn| memory.node_of(pfn) == NodeId(2)));
    assert_eq!(bound.len() as u64, managed(2));
    bound.into_iter().for_each(|pfn| memory.free_frame(pfn));
    memory.check().unwrap();
}

#[test]
fn allocations_go_on_while_a_job_writes() {
    let machine = TestMachine::with_cpus(FRAMES, 3);
    for seed in 0..8 {
        let memory = plain(&machine, seed * 100, FRAMES);
        let work = |cpu: u32| {
            machine.run_as(cpu);
            let (mut dice, mut held) = (Dice(seed), Vec::new());
            for _ in 0..8000 {
                let order = Order([0, 0, 0, 3, 9][dice.roll(5) as usize]);
                let room =
                    held.iter().map(|f: &crate::frame::Folio| f.order().frames()).sum::<u64>() < 20_000;
                if room && dice.roll(5) < 3 {
                    held.push(memory.alloc(order, AllocRequest::DIRTY).expect("memory is not used up"));
                } else if !held.is_empty() {
                    let folio = held.swap_remove(dice.roll(held.len() as u64) as usize);
                    memory.free(folio);
                }
            }
            held.into_iter().for_each(|folio| memory.free(folio));
        };
        std::thread::scope(|scope| {
            (1..3).for_each(|cpu| drop(scope.spawn(move || work(cpu))));
            finish(&memory);
        });
        memory.drain();
        let census = memory.check().unwrap();
        assert_eq!((census.deferred, census.handed_out), (0, 1));
    }
}
