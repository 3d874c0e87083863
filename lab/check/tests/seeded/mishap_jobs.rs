//! Allocations that fail while helpers work: populating, the end of a space, the initialisation of deferred
//! records. On the seeded machine: any allocation of any CPU may be the one that fails.

use super::with_helpers::{Seeded, Space, with_helpers};
use interleaf::frame::{AllocRequest, FramePlacement, Memory, RecordInit};
use interleaf::space::{Advice, Error, MapRequest};
use interleaf::units::{CpuId, VirtAddr, Vpn};
use interleaf::vma::HugePolicy;
use interleaf::work::{PollLimit, WorkerPool};
use interleaf_lab::machine::baton::{Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::MachineConfig;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::rng::Rng;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Two tables of leaves and a bit: work for a helper.
const PAGES: u64 = 2 * 512 + 9;
const BYTES: u64 = PAGES * 4096;

/// Ends the space, with helpers, while allocations fail.
fn end_without_memory(space: Space<'_>) {
    let vm = space.vm();
    vm.memory().plan_mishaps_from(1);
    drop(space);
    vm.memory().plan_mishap(0);
}

fn present(space: &Space<'_>, start: VirtAddr) -> u64 {
    let page = |at| Vpn(start.vpn().0 + at);
    (0..PAGES).filter(|at| space.inspect().resident_frame(page(*at)).is_some()).count() as u64
}

/// Populating that was refused, in all seeds: the test is about them.
static REFUSED: AtomicU64 = AtomicU64::new(0);

#[test]
fn populating_with_helpers_is_refused_as_a_whole_and_succeeds_afterwards() {
    with_helpers(4096, HugePolicy::Never, 0..10, |space, seed| {
        let mut rng = Rng::new(seed);
        let start = space.map(&MapRequest::anonymous(BYTES)).expect("room");
        let nth = 1 + rng.below(PAGES);
        if rng.chance(1, 2) {
            space.vm().memory().plan_mishap(nth);
        } else {
            space.vm().memory().plan_mishaps_from(nth);
        }
        let done = space.advise(start, BYTES, Advice::PopulateWrite);
        let happened = !space.vm().memory().is_mishap_planned();
        space.vm().memory().plan_mishap(0);
        if done.is_err() {
            assert!(happened && done == Err(Error::NoMemory), "{done:?}");
            REFUSED.fetch_add(1, Relaxed);
        }
        assert_eq!(space.inspect().nr_mappings(), 1);
        space.advise(start, BYTES, Advice::PopulateWrite).expect("there is memory again");
        assert_eq!(present(&space, start), PAGES);
        end_without_memory(space);
    });
    assert!(REFUSED.load(Relaxed) > 0, "populating was never refused");
}

#[test]
fn a_mapping_that_helpers_populate_stands_whatever_allocation_fails() {
    with_helpers(4096, HugePolicy::Never, 10..18, |space, seed| {
        let mut rng = Rng::new(seed);
        space.vm().memory().plan_mishap(10 + rng.below(PAGES));
        let request = MapRequest { populate: true, ..MapRequest::anonymous(BYTES) };
        let start = space.map(&request).expect("mmap does not fail for it");
        space.vm().memory().plan_mishap(0);
        space.advise(start, BYTES, Advice::PopulateWrite).expect("there is memory again");
        assert_eq!(present(&space, start), PAGES);
        end_without_memory(space);
    });
}

/// Deferred blocks: one is initialised at start.
const FRAMES: u64 = 4 * 1024;

/// CPU 0 runs the job, CPU 1 helps, CPU 2 allocates, and now and then it fails.
fn initialise_while_allocations_fail(schedule: &Schedule) {
    let machine = Seeded::new(&MachineConfig::small(3, FRAMES)).expect("a machine");
    let cpu = machine.enter(CpuId(0));
    let mut memory = boot_map(&machine).claim(&machine).expect("nobody else has it");
    let workers = WorkerPool::spawn(&machine, &mut memory.early_allocator()).expect("memory");
    workers.set_poll_limit(PollLimit(2));
    let memory = Memory::start(memory, RecordInit::Deferred).expect("memory");
    let (memory, mut rng) = (&memory, Rng::new(schedule.seed()));
    let before = memory.check().expect("frames add up").allocated;
    drop(cpu);
    let job: Program<'_> = Box::new(move || {
        memory
            .deferred()
            .initialise(&workers, u32::MAX, &|| false, &|_| ())
            .expect("the job needs no memory");
        drop(workers);
    });
    let help: Program<'_> = Box::new(|| machine.help());
    let frames: Program<'_> = Box::new(move || {
        for _ in 0..12 {
            memory.plan_mishap(rng.below(4));
            let alloc = || memory.alloc_frame_from(FramePlacement::Local, AllocRequest::DIRTY);
            let held: Vec<_> = (0..3).filter_map(|_| alloc()).collect();
            assert!(held.len() >= 2, "one allocation of three fails");
        }
        memory.plan_mishap(0);
    });
    schedule.run(&machine, vec![job, help, frames]);
    let _cpu = machine.enter(CpuId(0));
    memory.drain();
    let counts = memory.check().expect("frames add up");
    assert_eq!((counts.deferred, counts.allocated), (0, before));
}

#[test]
fn records_are_initialised_though_allocations_fail_meanwhile() {
    explore(0..60, Options::default(), initialise_while_allocations_fail)
        .unwrap_or_else(|report| panic!("{report}"));
}
