//! Machines with nodes: the records of each node lie in its memory and are written by its CPUs. The machine
//! itself says so: it knows the frame behind each page of the record window, and the CPU of each event.

use interleaf::frame::{AllocRequest, BootMap, Init, Memory, Priority, RECORDS_WRITTEN, RecordInit};
use interleaf::frame::{Region, RegionKind};
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, NodeId, Order, PAGE_SIZE, Pfn, PfnRange};
use interleaf::work::{PollLimit, WorkerPool};
use interleaf_lab::machine::baton::{Baton, Options, Program, Schedule, explore};
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::{Fill, Flavour, MachineConfig, SoftMachine};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

type Machine<C> = SoftMachine<C, X86_64>;

/// Frames whose records fill a page.
const IN_PAGE: u64 = 128;
const REQUEST: AllocRequest = AllocRequest::DIRTY.with_priority(Priority::Reserve);

/// Usable regions: first frame, frame behind the last, node.
type Regions = [(u64, u64, u32)];

fn machine<C: Flavour>(of: &Regions, nr_cpus: u32, nodes: u32, fill: Fill) -> Machine<C> {
    let regions = of.iter().map(|&(from, to, _)| PfnRange::new(Pfn(from), Pfn(to))).collect();
    Machine::new(&MachineConfig { nr_cpus, regions, fill }).expect("a machine").with_nodes(nodes)
}

fn map(of: &Regions) -> BootMap {
    let region = |&(from, to, node): &(u64, u64, u32)| Region {
        start: Pfn(from).addr(),
        len_bytes: (to - from) * PAGE_SIZE as u64,
        kind: RegionKind::Usable(Init::Dirty),
        node: NodeId(node),
    };
    BootMap::new(&of.iter().map(region).collect::<Vec<_>>()).expect("a sound map")
}

fn node_of(of: &Regions, pfn: Pfn) -> Option<u32> {
    of.iter().find(|(from, to, _)| (*from..*to).contains(&pfn.0)).map(|&(_, _, node)| node)
}

/// Pages of records that lie on the node of the first usable frame that they describe, pages that lie on
/// another, and pages without memory.
fn recount<C: Flavour>(machine: &Machine<C>, memory: &Memory<'_, Machine<C>>, of: &Regions) -> [u64; 3] {
    let [mut near, mut far, mut without] = [0; 3];
    let span = memory.span();
    for page in span.start.0 / IN_PAGE..span.end.0.div_ceil(IN_PAGE) {
        let mut frames = (page * IN_PAGE..(page + 1) * IN_PAGE).map(Pfn).filter(|&pfn| span.contains(pfn));
        let first = frames.clone().next().expect("a frame of the span");
        let record = NonNull::from(memory.meta(first).expect("a record that is written")).cast();
        let usable = frames.find_map(|pfn| node_of(of, pfn));
        match (machine.arena().frame_behind(record), usable) {
            (None, None) => without += 1,
            (None, Some(_)) => panic!("the records of page {page} have no memory"),
            (Some(_), None) => (),
            (Some(frame), Some(node)) if node_of(of, frame) == Some(node) => near += 1,
            (Some(_), Some(_)) => far += 1,
        }
    }
    [near, far, without]
}

/// Which CPU wrote the records of each block.
#[derive(Clone, Default)]
struct Writers(Arc<Mutex<BTreeMap<u64, CpuId>>>);

impl Writers {
    fn of<C: Flavour>(machine: &Machine<C>) -> Self {
        let writers = Self::default();
        let heard = writers.clone();
        machine.listen(move |name, block| {
            if name == RECORDS_WRITTEN {
                heard.0.lock().expect("no panic").insert(block, C::id());
            }
        });
        writers
    }

    /// Blocks that a CPU of their own node wrote, and those that another did.
    fn near_and_far(&self, of: &Regions, nodes: u32) -> [usize; 2] {
        let writers = self.0.lock().expect("no panic");
        let known =
            writers.iter().filter_map(|(&block, cpu)| Some(node_of(of, Pfn(block))? == cpu.0 % nodes));
        let near: Vec<bool> = known.collect();
        let nr_near = near.iter().filter(|near| **near).count();
        [nr_near, near.len() - nr_near]
    }
}

/// 2 GiB with a hole of one, whose records fill four large pages, and a border within a block.
const LARGE: [(u64, u64, u32); 3] =
    [(256, 300_001, 0), (300_001, 400_000, 1), (400_000 + (1 << 18), 500_000 + (1 << 18), 1)];

#[test]
fn records_of_two_nodes_lie_on_them_after_any_number_of_boots() {
    let mut machine = machine::<Host>(&LARGE, 2, 2, Fill::Untouched);
    machine.start_helpers([CpuId(1)], |_| ());
    let mut counts = Vec::new();
    for init in [RecordInit::Deferred, RecordInit::Eager, RecordInit::Deferred] {
        machine.unclaim_memory();
        let _here = machine.enter(CpuId(0));
        let mut boot_memory = map(&LARGE).claim(&machine).expect("nobody has it");
        let workers = WorkerPool::spawn(&machine, &mut boot_memory.early_allocator()).expect("a pool");
        workers.set_poll_limit(PollLimit(u32::MAX));
        while !workers.has_helper_racy(CpuId(1)) {
            std::thread::yield_now();
        }
        let memory = Memory::start(boot_memory, init).expect("memory");
        memory.deferred().initialise(&workers, u32::MAX, &|| false, &|_| ()).expect("nothing stops it");
        counts.push(recount(&machine, &memory, &LARGE));
        assert_eq!(memory.check().expect("frames add up").deferred, 0);
        // On the host's large pages, but for the ends.
        let large = memory.record_extents().iter().filter(|extent| extent.len_bytes() >= 2 << 20);
        for extent in large {
            let record = NonNull::from(memory.meta(extent.frames.start).expect("written"));
            let window = record.addr().get() as u64;
            assert_eq!(window % (2 << 20), extent.memory.0 % (2 << 20), "{extent:?}");
        }
    }
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0], counts[2]);
    let [near, far, without] = counts[0];
    assert!(near > 3800 && far == 0 && without >= 3 * 512, "{counts:?}");
}

#[test]
fn each_nodes_helper_writes_its_records() {
    // The caller's node has one block; all that is deferred is the other's.
    let of = [(256, 2048, 0), (2048, 200_000, 1)];
    let machine = machine::<Host>(&of, 2, 2, Fill::Untouched);
    machine.start_helpers([CpuId(1)], |_| ());
    let writers = Writers::of(&machine);
    let _here = machine.enter(CpuId(0));
    let mut boot_memory = map(&of).claim(&machine).expect("nobody has it");
    let workers = WorkerPool::spawn(&machine, &mut boot_memory.early_allocator()).expect("a pool");
    workers.set_poll_limit(PollLimit(u32::MAX));
    while !workers.has_helper_racy(CpuId(1)) {
        std::thread::yield_now();
    }
    let memory = Memory::start(boot_memory, RecordInit::Deferred).expect("memory");
    memory.deferred().initialise(&workers, u32::MAX, &|| false, &|_| ()).expect("nothing stops it");
    let [near, far] = writers.near_and_far(&of, 2);
    assert!(near > 150 && far == 0, "{near} blocks by their own node, {far} by the other");
}

/// Two nodes whose regions alternate, a hole, and a node of a few frames.
const SMALL: [(u64, u64, u32); 5] =
    [(256, 3000, 0), (3000, 5120, 1), (5120, 7168, 0), (7168, 9216, 1), (10_240, 10_250, 2)];

/// CPU 0, on node 0, runs the job; CPU 1 helps, on node 1; CPUs 2 and 3 allocate blocks and frames: the first
/// to come initialise on demand.
fn boot_and_grow(schedule: &Schedule) {
    let machine = machine::<Baton>(&SMALL, 4, 2, Fill::Dirty);
    let cpu = machine.enter(CpuId(0));
    let mut boot_memory = map(&SMALL).claim(&machine).expect("nobody else has it");
    let workers = WorkerPool::spawn(&machine, &mut boot_memory.early_allocator()).expect("a pool");
    workers.set_poll_limit(PollLimit(1));
    let memory = Memory::start(boot_memory, RecordInit::Deferred).expect("memory");
    drop(cpu);
    let memory = &memory;
    assert!(memory.deferred().frames() >= 2 * 1024);
    let job: Program<'_> = Box::new(move || {
        memory
            .deferred()
            .initialise(&workers, u32::MAX, &|| false, &|_| ())
            .expect("the job is not cancelled");
        assert_eq!(memory.deferred().unclaimed_frames(), 0);
        drop(workers);
    });
    let help: Program<'_> = Box::new(|| machine.help());
    let blocks: Program<'_> = Box::new(move || {
        let held: Vec<_> = (0..5).filter_map(|_| memory.alloc(Order::MAX, REQUEST)).collect();
        assert!(held.len() >= 3, "{} blocks", held.len());
    });
    let frames: Program<'_> = Box::new(move || {
        let held: Vec<_> = (0..3).map(|_| memory.alloc_frame(REQUEST).expect("a frame")).collect();
        assert!(held.iter().all(|frame| node_of(&SMALL, frame.pfn()).is_some()));
    });
    schedule.run(&machine, vec![job, help, blocks, frames]);
    let _cpu = machine.enter(CpuId(0));
    assert_eq!(memory.deferred().frames(), 0);
    let [near, far, _] = recount(&machine, memory, &SMALL);
    assert!(near > 60 && far <= 1, "{near} pages near, {far} far");
    memory.drain();
    let counts = memory.check().expect("frames add up");
    assert_eq!((counts.deferred, counts.allocated), (0, 1));
}

#[test]
fn memory_of_nodes_grows_on_demand_beside_the_job_whatever_the_seed() {
    explore(0..60, Options::default(), boot_and_grow).unwrap_or_else(|report| panic!("{report}"));
}
