//! Allocation while deferred frame records are being initialised, on the seeded machine: in every order each
//! block is allocated once, none is lost, and no allocation fails while blocks are being initialised.

use interleaf::frame::{AllocRequest, FramePlacement, Memory, Priority, RecordInit};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, Order};
use interleaf::work::{PollLimit, WorkerPool};
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Machine = SoftMachine<Baton, X86_64>;

/// Four whole blocks, of which one is initialised at start, and two in part, the last of which holds the
/// records.
const FRAMES: u64 = 5 * 1024;
const WHOLE_BLOCKS: usize = 4;
const REQUEST: AllocRequest = AllocRequest::DIRTY.with_priority(Priority::Reserve);

/// Deferred blocks that allocations found, in all seeds: the test is about them.
static FOUND_DEFERRED: AtomicU64 = AtomicU64::new(0);

/// CPU 0 runs the job, CPU 1 allocates every whole block, CPU 2 helps, CPU 3 allocates single frames.
fn boot_and_allocate(schedule: &Schedule) {
    let machine = Machine::new(&MachineConfig::small(4, FRAMES)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let mut memory = boot_map(&machine).claim(&machine).expect("nobody else has it");
    let workers =
        WorkerPool::spawn(&machine, &mut memory.early_allocator()).expect("memory for a worker pool");
    workers.set_poll_limit(PollLimit(2));
    let memory = Memory::start(memory, RecordInit::Deferred).expect("memory");
    drop(cpu);
    let (memory, deferred) = (&memory, memory.deferred().frames());
    assert_eq!(deferred, (WHOLE_BLOCKS as u64 - 1) * 1024);
    let job: Program<'_> = Box::new(move || {
        memory
            .deferred()
            .initialise(&workers, u32::MAX, &|| false, &|_| ())
            .expect("the job is not cancelled");
        // Those that an allocation has claimed may not be free yet.
        assert_eq!(memory.deferred().unclaimed_frames(), 0);
        // The helper leaves its loop.
        drop(workers);
    });
    let blocks: Program<'_> = Box::new(move || {
        let alloc = |n| memory.alloc(Order::MAX, REQUEST).unwrap_or_else(|| panic!("block {n} is refused"));
        FOUND_DEFERRED.fetch_add(memory.deferred().frames() / 1024, Relaxed);
        for _ in 0..2 {
            drop((0..WHOLE_BLOCKS).map(alloc).collect::<Vec<_>>());
        }
    });
    let (help, frames): (Program<'_>, Program<'_>) = (
        Box::new(|| machine.help()),
        Box::new(move || {
            for _ in 0..3 {
                let frame =
                    memory.alloc_frame_from(FramePlacement::Local, AllocRequest::DIRTY).expect("a frame");
                drop(frame);
            }
        }),
    );
    schedule.run(&machine, vec![job, blocks, help, frames]);
    let _cpu = machine.enter(CpuId(0));
    assert_eq!(memory.deferred().frames(), 0);
    memory.drain();
    let counts = memory.check().expect("frames add up");
    assert_eq!((counts.deferred, counts.allocated), (0, 1));
}

#[test]
fn allocations_during_initialisation_get_every_block_once_whatever_the_seed() {
    explore(0..120, Options::default(), boot_and_allocate).unwrap_or_else(|report| panic!("{report}"));
    let found = FOUND_DEFERRED.load(Relaxed);
    assert!(found > 40, "in all seeds allocations found only {found} deferred blocks");
}
