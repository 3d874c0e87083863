//! Where the records lie: a recount by the machine, which knows the frame behind each page of the window.

use crate::frame::{AllocRequest, BootError, BootMap, Init, Kind, Memory, Priority, RecordInit, Region};
use crate::frame::{RegionKind, tests::Dice};
use crate::machine::Machine;
use crate::machine::testing::{TestMachine, played};
use crate::units::{NodeId, Order, PAGE_SIZE, Pfn};
use crate::work::WorkerPool;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::vec::Vec;

type TestMemory<'m> = Memory<'m, TestMachine>;

/// Frames whose records fill a page.
const IN_PAGE: u64 = 128;
const BOTH: [RecordInit; 2] = [RecordInit::Eager, RecordInit::Deferred];

/// Usable regions of dirty memory: first frame of the machine, frame behind the last, node.
pub(super) fn regions(machine: &TestMachine, of: &[(u64, u64, u32)]) -> Vec<Region> {
    let region = |&(from, to, node): &(u64, u64, u32)| Region {
        start: machine.frames().start.add(from).addr(),
        len_bytes: (to - from) * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(node),
    };
    of.iter().map(region).collect()
}

/// Starts on memory of which every byte is 0xA5.
pub(super) fn start<'m>(
    machine: &'m TestMachine,
    regions: &[Region],
    init: RecordInit,
) -> Result<TestMemory<'m>, BootError> {
    for region in regions {
        // SAFETY: memory of the machine that nothing uses.
        unsafe { machine.window(region.start).write_bytes(0xA5, region.len_bytes as usize) };
    }
    Memory::start(BootMap::new(regions).unwrap().claim(machine)?, init)
}

pub(super) fn initialise(memory: &TestMemory<'_>) {
    let workers = WorkerPool::without_helpers(memory.machine());
    memory.deferred().initialise(&workers, 0, &|| false, &|_| ()).unwrap();
}

/// Pages of records, by whether they lie on the node of the first usable frame that they describe; those of
/// pages without one, and those without memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recount {
    near: u64,
    far: u64,
    of_holes: u64,
    without_memory: u64,
}

/// Asks the machine what lies behind every page of the window.
pub(super) fn recount(machine: &TestMachine, memory: &TestMemory<'_>, regions: &[Region]) -> Recount {
    let mut counts = Recount::default();
    let node_of = |pfn: Pfn| regions.iter().find(|region| region.frames().contains(pfn)).map(|r| r.node);
    let span = memory.span();
    let mut behind = BTreeMap::new();
    for page in span.start.0 / IN_PAGE..span.end.0.div_ceil(IN_PAGE) {
        let frames = (page * IN_PAGE..(page + 1) * IN_PAGE).map(Pfn).filter(|&pfn| span.contains(pfn));
        let record =
            |pfn: Pfn| NonNull::from(memory.meta(pfn).expect("all records are written")).cast::<u8>();
        let backing: Vec<_> = frames.clone().map(|pfn| machine.frame_behind(record(pfn))).collect();
        assert!(backing.iter().all(|frame| *frame == backing[0]), "page {page} is in parts");
        let described = frames.clone().find_map(node_of);
        match (backing[0], described) {
            (Some(frame), described) => {
                assert_eq!(behind.insert(frame, page), None, "{frame:?} is behind two pages");
                let lies_on = node_of(frame).expect("records lie in memory of the map");
                match described {
                    Some(node) if node == lies_on => counts.near += 1,
                    Some(_) => counts.far += 1,
                    None => counts.of_holes += 1,
                }
            }
            (None, None) => {
                counts.without_memory += 1;
                let kind = |pfn| memory.meta(pfn).map(|meta| meta.state().kind());
                assert!(frames.clone().all(|pfn| kind(pfn) == Some(Kind::Reserved)), "page {page}");
            }
            (None, Some(_)) => panic!("page {page} has usable frames and no memory"),
        }
    }
    // What the library says is what the machine says.
    let said = |near| {
        let extents = memory.record_extents().iter().filter(|extent| extent.is_near() == near);
        extents.map(|extent| extent.len_bytes() / PAGE_SIZE as u64).sum::<u64>()
    };
    assert!(said(false) >= counts.far && said(true) >= counts.near, "{counts:?}");
    assert_eq!(said(true) + said(false), counts.near + counts.far + counts.of_holes);
    // No frame behind the window is a frame that can be allocated.
    for &frame in behind.keys() {
        assert_eq!(memory.meta(frame).map(|meta| meta.state().kind()), Some(Kind::Reserved), "{frame:?}");
        assert!(memory.try_get(frame).is_none());
    }
    counts
}

/// Allocates everything, single frames and large blocks, and frees it.
pub(super) fn use_all(memory: &TestMemory<'_>) {
    for order in [Order::BASE, Order::MAX] {
        let ask = AllocRequest::DIRTY.with_priority(Priority::Reserve);
        let held: Vec<_> = core::iter::from_fn(|| memory.alloc(order, ask)).collect();
        drop(held);
        memory.drain();
    }
    let counts = memory.check().unwrap();
    assert_eq!((counts.cached, counts.deferred, counts.allocated), (0, 0, 1));
}

#[test]
fn records_lie_on_the_node_of_their_frames_with_holes_and_interleaved_nodes() {
    let maps: [&[(u64, u64, u32)]; 5] = [
        &[(0, 8192, 0), (8192, 20_000, 1)],
        // A hole at the border, and one inside of a node.
        &[(100, 9000, 0), (14_000, 20_000, 1), (26_000, 30_000, 1)],
        // Interleaved in regions of 1024 frames, and of 256.
        &[(0, 1024, 0), (1024, 2048, 1), (2048, 3072, 0), (3072, 4096, 1), (4096, 5120, 2)],
        &[(0, 256, 0), (256, 512, 1), (512, 768, 0), (768, 1024, 1), (1024, 9000, 0)],
        // A border at any frame.
        &[(77, 5001, 2), (5001, 5003, 1), (5003, 12_345, 0)],
    ];
    for (at, of) in maps.iter().enumerate() {
        for init in BOTH {
            let machine = TestMachine::with_cpus(30_000, 2);
            let regions = regions(&machine, of);
            let memory = start(&machine, &regions, init).unwrap();
            initialise(&memory);
            let counts = recount(&machine, &memory, &regions);
            assert!(counts.near > 30 && counts.far <= 1, "map {at}: {counts:?}");
            // The fifth has two frames alone on a node, which keep their memory.
            assert_eq!(counts.far, 0, "map {at}: {counts:?}");
            assert_eq!(counts.without_memory > 0, at == 1, "map {at}: {counts:?}");
            use_all(&memory);
            assert_eq!(recount(&machine, &memory, &regions), counts);
        }
    }
}

#[test]
fn a_hole_costs_no_memory_but_for_its_ends() {
    const END: u64 = 200_000;
    let machine = TestMachine::new(END);
    let regions = regions(&machine, &[(0, 4000, 0), (END - 4000, END, 0)]);
    // Without a window each region would have to hold records for all: 6 MiB, of 15.
    let memory = start(&machine, &regions, RecordInit::Deferred).unwrap();
    initialise(&memory);
    let counts = recount(&machine, &memory, &regions);
    let in_memory = counts.near + counts.of_holes;
    assert!(in_memory < 2 * 40 && counts.without_memory > 1400, "{counts:?}");
    let unclaimed = memory.deferred().unclaimed_frames();
    assert_eq!(unclaimed, 0);
    use_all(&memory);
}

#[test]
fn records_that_have_no_memory_are_never_deferred() {
    const END: u64 = 200_000;
    let machine = TestMachine::new(END);
    let regions = regions(&machine, &[(0, 20_000, 0), (END - 20_000, END, 1)]);
    let memory = start(&machine, &regions, RecordInit::Deferred).unwrap();
    let hole = (100_000..110_000).map(|n| machine.frames().start.add(n));
    for pfn in hole {
        assert_eq!(memory.meta(pfn).map(|meta| meta.state().kind()), Some(Kind::Reserved));
        assert!(memory.try_get(pfn).is_none());
    }
    assert!(memory.deferred().unclaimed_frames() < 45_000, "{} frames", memory.deferred().unclaimed_frames());
}

#[test]
fn a_node_without_memory_enough_has_its_records_on_another() {
    let mut machine = TestMachine::new(24_000);
    // Node 1 has one frame, in a page of records of its own.
    let regions = regions(&machine, &[(0, 10_000, 0), (10_240, 10_241, 1), (10_368, 24_000, 2)]);
    for init in BOTH {
        machine.unclaim_memory();
        let memory = start(&machine, &regions, init).unwrap();
        initialise(&memory);
        assert_eq!(recount(&machine, &memory, &regions).far, 1);
        let far: Vec<_> = memory.record_extents().iter().filter(|extent| !extent.is_near()).collect();
        assert_eq!((far.len(), far[0].node, far[0].memory_node == NodeId(1)), (1, NodeId(1), false));
        let zone = memory.zones().iter().find(|zone| zone.node() == NodeId(1)).unwrap();
        assert_eq!(zone.managed(), 1, "the node keeps its only frame");
        use_all(&memory);
    }
}

#[test]
fn a_node_keeps_as_much_as_its_records_take() {
    for (len, keeps) in [(1, 1), (2, 1), (5, 4), (300, 297)] {
        let machine = TestMachine::new(20_000);
        let end: u64 = 8192 + len;
        let after = end.next_multiple_of(IN_PAGE);
        let regions = regions(&machine, &[(0, 8192, 0), (8192, end, 1), (after, 20_000, 0)]);
        let memory = start(&machine, &regions, RecordInit::Deferred).unwrap();
        let zone = memory.zones().iter().find(|zone| zone.node() == NodeId(1)).unwrap();
        assert_eq!(zone.managed(), keeps, "of {len}");
        initialise(&memory);
        use_all(&memory);
    }
}

#[test]
fn without_windows_all_records_lie_in_one_piece() {
    for init in BOTH {
        let machine = TestMachine::new(30_000);
        machine.has_record_windows.store(false, Relaxed);
        let regions = regions(&machine, &[(0, 9000, 0), (14_000, 30_000, 1)]);
        let memory = start(&machine, &regions, init).unwrap();
        initialise(&memory);
        let extents = memory.record_extents();
        assert_eq!(
            extents.iter().map(|it| (it.node.0, it.is_near())).collect::<Vec<_>>(),
            [(0, false), (1, true)]
        );
        assert_eq!(extents[0].memory.0 + extents[0].len_bytes(), extents[1].memory.0);
        for extent in extents {
            let frames = (extent.frames.start.0..extent.frames.end.0).map(Pfn);
            for pfn in frames.filter(|&pfn| memory.span().contains(pfn)) {
                let record = NonNull::from(memory.meta(pfn).unwrap()).cast();
                let expected = extent.memory.0 + (pfn.0 - extent.frames.start.0) * 32;
                assert_eq!(machine.phys_of(record).0, expected, "{pfn:?}");
            }
        }
        use_all(&memory);
    }
}

#[test]
fn memory_of_one_extent_asks_for_no_window() {
    let machine = TestMachine::new(20_000);
    let regions = regions(&machine, &[(0, 9000, 0), (9500, 20_000, 0)]);
    let memory = start(&machine, &regions, RecordInit::Deferred).unwrap();
    let record = NonNull::from(memory.meta(memory.zero_frame()).unwrap()).cast();
    assert_eq!(machine.frame_behind(record), None);
    assert_eq!(memory.record_extents().len(), 1);
}

#[test]
fn random_maps_have_their_records_near_in_both_modes() {
    let (mut near, mut far) = (0, 0);
    let cases = played(25, 100);
    for seed in 0..cases {
        let mut machine = TestMachine::with_cpus(50_000, 2);
        let mut dice = Dice(seed);
        let (mut at, mut of) = (dice.roll(3000), Vec::new());
        while at < 50_000 && of.len() < 20 {
            let most = [5, 300, 3000, 9000][dice.roll(4) as usize];
            let end = (at + 1 + dice.roll(most)).min(50_000);
            of.push((at, end, dice.roll(4) as u32));
            at = end + [0, 0, 1, dice.roll(6000)][dice.roll(4) as usize];
        }
        for init in BOTH {
            machine.unclaim_memory();
            let regions = regions(&machine, &of);
            let memory = match start(&machine, &regions, init) {
                Ok(memory) => memory,
                Err(error) => {
                    assert_eq!(error, BootError::TooSmall);
                    continue;
                }
            };
            memory.check().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            initialise(&memory);
            let counts = match memory.record_extents() {
                [_] => continue,
                _ => recount(&machine, &memory, &regions),
            };
            (near, far) = (near + counts.near, far + counts.far);
            use_all(&memory);
        }
    }
    assert!(near > cases * 125 && far * 20 < near, "{near} pages near, {far} far");
}

#[test]
fn a_failure_of_any_boot_allocation_is_an_error_and_no_more() {
    let mut machine = TestMachine::with_cpus(30_000, 2);
    for init in BOTH {
        let mut failed = 0;
        for nth in 1.. {
            machine.unclaim_memory();
            let regions = regions(&machine, &[(0, 9000, 0), (14_000, 20_000, 1), (26_000, 30_000, 2)]);
            let mut boot_memory = BootMap::new(&regions).unwrap().claim(&machine).unwrap();
            boot_memory.plan_mishap(nth);
            match Memory::start(boot_memory, init) {
                Ok(memory) => {
                    initialise(&memory);
                    use_all(&memory);
                    break;
                }
                Err(error) => assert_eq!(error, BootError::TooSmall, "the {nth}th allocation"),
            }
            failed += 1;
        }
        // Slots, three extents with a table each, caches, distances, local zones, ranges, zones, the regions
        // of each, hints and what CPUs reserve of the first; bits and deferred ranges.
        assert_eq!(failed, if init == RecordInit::Eager { 17 } else { 19 });
    }
}

#[test]
fn memory_of_any_size_starts_or_is_refused() {
    let mut machine = TestMachine::new(12_000);
    let mut started = 0;
    for frames in (1..60).chain([100, 127, 128, 129, 500, 1024, 5000]) {
        for init in BOTH {
            machine.unclaim_memory();
            let of = [(0, frames, 0), (6000, 6000 + frames, 1)];
            match start(&machine, &regions(&machine, &of), init) {
                Ok(memory) => {
                    started += 1;
                    initialise(&memory);
                    use_all(&memory);
                }
                Err(error) => assert_eq!(error, BootError::TooSmall),
            }
        }
    }
    assert!(started > 40, "{started}");
}
