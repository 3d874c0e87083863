//! Populating and the end of a space with helpers, on the seeded machine: whatever the seed, every page is
//! there once, and every frame comes back.

use interleaf::frame::RecordInit;
use interleaf::machine::Machine as _;
use interleaf::space::{AddressSpace, Advice, Error, Layout, MapRequest, Path, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, Pfn, VirtAddr, Vpn};
use interleaf::work::{PollLimit, WorkerPool};
use interleaf_lab::check::library::boot_map;
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::*};

type Seeded = SoftMachine<Baton, X86_64>;
type Space<'v> = AddressSpace<'v, Seeded>;

/// Three tables of leaves and a bit: work for more than two.
const PAGES: u64 = 3 * 512 + 9;
const BYTES: u64 = PAGES * 4096;

/// Plays `caller` with a space on CPU 0 and helpers on two others, on a machine of `frames` frames; then ends
/// the space, with helpers, and counts the frames.
fn with_helpers(frames: u64, seeds: std::ops::Range<u64>, caller: fn(&Space<'_>)) {
    let scenario = move |schedule: &Schedule| {
        let machine = Seeded::new(&MachineConfig::small(3, frames)).unwrap();
        let entered = machine.enter(CpuId(0));
        let mut memory = boot_map(&machine).claim(&machine).expect("nobody else has it");
        let workers = WorkerPool::spawn(&machine, &mut memory.early_allocator()).unwrap();
        workers.set_poll_limit(PollLimit(2));
        drop(entered);
        let machine = &machine;
        let first: Program<'_> = Box::new(move || {
            let vm = Vm::start(memory, RecordInit::Eager).unwrap().with_workers(&workers);
            let in_use = || {
                vm.trim();
                vm.memory().check().expect("frames add up").allocated
            };
            let before = in_use();
            let space = Space::new(&vm, Layout::linux::<X86_64>(), Path::Speculative).unwrap();
            caller(&space);
            drop(space);
            vm.settle();
            assert_eq!(in_use(), before, "frames leaked");
            drop(vm);
            drop(workers);
        });
        let helpers = (1..machine.nr_cpus()).map(|_| Box::new(|| machine.help()) as Program<'_>);
        schedule.run(machine, std::iter::once(first).chain(helpers).collect());
    };
    let options = Options { limit_steps: 20_000_000, ..Options::default() };
    explore(seeds, options, scenario).unwrap_or_else(|report| panic!("{report}"));
}

/// The frames of the pages from `start` on that are present.
fn frames_of(space: &Space<'_>, start: VirtAddr) -> Vec<Pfn> {
    let page = |at| Vpn(start.vpn().0 + at);
    (0..PAGES).filter_map(|at| space.resident_frame(page(at))).map(|(pfn, ..)| pfn).collect()
}

#[test]
fn a_populated_mapping_has_a_frame_for_each_page_whatever_the_seed() {
    with_helpers(4096, 0..6, |space| {
        let start = space.map(&MapRequest { populate: true, ..MapRequest::anonymous(BYTES) }).unwrap();
        let frames = frames_of(space, start);
        let different: HashSet<_> = frames.iter().collect();
        assert_eq!((frames.len() as u64, different.len() as u64), (PAGES, PAGES));
    });
}

/// As Linux does it: the mapping stands, what was there stays there, and what could be made present may be.
#[test]
fn populating_more_than_there_is_fails_and_takes_nothing_away_whatever_the_seed() {
    static STAYED: AtomicU32 = AtomicU32::new(0);
    with_helpers(1400, 0..6, |space| {
        let start = space.map(&MapRequest::anonymous(BYTES)).unwrap();
        space.advise(start, 64 * 4096, Advice::PopulateWrite).unwrap();
        let before = frames_of(space, start);
        assert_eq!(before.len(), 64);
        assert_eq!(space.advise(start, BYTES, Advice::PopulateWrite), Err(Error::NoMemory));
        let after = frames_of(space, start);
        assert!(after.starts_with(&before) && (after.len() as u64) < PAGES);
        STAYED.fetch_add(after.len() as u32 - 64, Relaxed);
        // A mapping that is to be populated stands also where that fails.
        space.unmap(start, BYTES).unwrap();
        let populated = MapRequest { populate: true, ..MapRequest::anonymous(BYTES) };
        let start = space.map(&populated).expect("mmap does not fail for it");
        assert!((frames_of(space, start).len() as u64) < PAGES);
    });
    assert!(STAYED.load(Relaxed) > 0, "nothing was ever populated beyond what was there");
}
