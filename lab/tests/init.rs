//! Allocation while the frame table is being initialised, on the seeded machine: whatever the order, no block
//! is given twice, none is lost, and nobody is refused memory that is only on its way.

use interleaf::frame::{AllocRequest, Folio, Memory, Priority, RecordInit};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, Order};
use interleaf::work::{PollLimit, WorkerPool};
use interleaf_lab::check::library::boot_map;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Machine = SoftMachine<Baton, X86_64>;

/// Four whole blocks, of which one is there at start, and two cut ones, the last of which holds the records.
const FRAMES: u64 = 5 * 1024;
const WHOLE_BLOCKS: usize = 4;
const ASK: AllocRequest = AllocRequest::DIRTY.with_priority(Priority::Reserve);

/// Blocks that allocations found raw or on their way, in all seeds: the test is about them.
static GREW: AtomicU64 = AtomicU64::new(0);

/// CPU 0 runs the job, CPU 1 takes every whole block that there is, CPU 2 helps, CPU 3 takes single frames.
fn boot_and_allocate(schedule: &Schedule) {
    let machine = Machine::new(&MachineConfig::small(4, FRAMES)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let mut map = boot_map(&machine);
    let workers =
        WorkerPool::spawn(&machine, &mut map.early_allocator(&machine)).expect("memory for a worker pool");
    workers.set_poll_limit(PollLimit(2));
    let memory = Memory::start(&machine, map, RecordInit::Deferred).expect("memory");
    drop(cpu);
    let (memory, waiting) = (&memory, memory.deferred_frames());
    assert_eq!(waiting, (WHOLE_BLOCKS as u64 - 1) * 1024);
    let job: Program<'_> = Box::new(move || {
        memory.initialise(&workers, u32::MAX, &|| false, &|_| ()).expect("nobody gives the job up");
        // Those that an allocation has claimed may be on their way.
        assert_eq!(memory.unclaimed_frames(), 0);
        // Sends the helper home.
        drop(workers);
    });
    let blocks: Program<'_> = Box::new(move || {
        let take = |n| memory.alloc(Order::MAX, ASK).unwrap_or_else(|| panic!("block {n} is refused"));
        GREW.fetch_add(memory.deferred_frames() / 1024, Relaxed);
        for _ in 0..2 {
            let held: Vec<Folio> = (0..WHOLE_BLOCKS).map(take).collect();
            held.into_iter().for_each(|block| memory.free(block));
        }
    });
    let (help, frames): (Program<'_>, Program<'_>) = (
        Box::new(|| machine.help()),
        Box::new(move || {
            for _ in 0..3 {
                let frame = memory
                    .alloc_frame_from(interleaf::frame::FramePlacement::Local, AllocRequest::DIRTY)
                    .expect("a frame");
                memory.free_frame(frame);
            }
        }),
    );
    schedule.run(&machine, vec![job, blocks, help, frames]);
    let _cpu = machine.enter(CpuId(0));
    assert_eq!(memory.deferred_frames(), 0);
    memory.drain();
    let census = memory.check().expect("frames add up");
    assert_eq!((census.deferred, census.allocated), (0, 1));
}

#[test]
fn allocations_during_initialisation_get_every_block_once_whatever_the_seed() {
    explore(0..120, Options::default(), boot_and_allocate).unwrap_or_else(|report| panic!("{report}"));
    let grew = GREW.load(Relaxed);
    assert!(grew > 40, "in all seeds only {grew} blocks were not there when an allocation asked");
}
