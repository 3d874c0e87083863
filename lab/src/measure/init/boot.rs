//! One boot of a frame table, timed.

use super::MemoryMap;
use crate::error::Failure;
use crate::machine::soft::arena::DIRTY_BYTE;
use crate::machine::soft::{Fill, MachineConfig, SoftMachine};
use crate::measure::timed_machine::TimedMachine;
use crate::os::{affinity, process};
use interleaf::frame::{
    AllocRequest, BootMap, BootMemory, FrameMeta, Memory, NodeInitReport, RecordExtent, RecordInit, Region,
};
use interleaf::units::{CpuId, NodeId, PAGE_SIZE, Pfn, PfnRange};
use interleaf::work::{PollLimit, WorkerPool};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Bytes of boot memory that the library takes beside the records, and more: what helpers take before them
/// moves the records, and large pages of a window move them by up to 2 MiB.
const BESIDE_RECORDS: u64 = 6 << 20;

/// How often helpers look for work before they sleep: some milliseconds.
const HELPER_POLL_LIMIT: PollLimit = PollLimit(1_000_000);

/// A machine with the memory of a map, most of it never touched.
pub struct BootMachine {
    machine: Mutex<TimedMachine>,
    regions: Vec<Region>,
    /// Frames that boot memory is going to be carved from.
    boot_memory: Vec<PfnRange>,
}

/// When records are written, in one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitMode {
    /// All before the first allocation.
    First,
    /// By a job of this number of threads, the caller among them.
    Job(usize),
    /// On demand; the boot ends with the first allocation.
    Needed,
}

/// Whether the machine has record windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordWindows {
    /// The records of each node can lie on it.
    Offered,
    /// All records lie in one piece.
    Lacking,
}

/// What one boot took. Times in ns, from the start of the boot.
#[derive(Clone, Debug, Default)]
pub struct Boot {
    /// Until the first allocation had succeeded.
    pub first_ns: f64,
    /// From then until all records were written and all frames in their zones.
    pub rest_ns: f64,
    /// Of all CPUs, in the whole boot.
    pub cpu_ns: f64,
    /// Bytes of records that were written before the first allocation.
    pub first_bytes: u64,
    /// Bytes of records written after it.
    pub rest_bytes: u64,
    /// Frames that are the library's.
    pub frames: u64,
    /// Node by node, as they were done.
    pub nodes: Vec<NodeInitReport>,
    /// Where the records lie.
    pub records: Vec<RecordExtent>,
}

impl Boot {
    /// Until everything is done.
    pub fn all_ns(&self) -> f64 {
        self.first_ns + self.rest_ns
    }
}

impl BootMachine {
    /// A machine for `memory_map` with helpers on these CPUs of the host but the first, which is the
    /// caller's.
    ///
    /// # Errors
    /// What the host says.
    pub fn new(map: &MemoryMap, host_cpus: &[usize]) -> Result<BootMachine, Failure> {
        Self::with_windows(map, host_cpus, RecordWindows::Offered)
    }

    /// As [`new`](Self::new), of a machine with or without record windows.
    ///
    /// # Errors
    /// What the host says.
    pub fn with_windows(
        map: &MemoryMap,
        host_cpus: &[usize],
        windows: RecordWindows,
    ) -> Result<BootMachine, Failure> {
        let regions = map.regions();
        let nr_cpus = host_cpus.len() as u32;
        let memory: Vec<PfnRange> = regions.iter().map(Region::frames).collect();
        let config = MachineConfig { nr_cpus, regions: memory, fill: Fill::Untouched };
        let machine = SoftMachine::new(&config)?.with_nodes(map.nodes);
        let machine = match windows {
            RecordWindows::Offered => machine,
            RecordWindows::Lacking => machine.without_record_windows(),
        };
        let pinned_to = host_cpus.to_vec();
        machine.start_helpers((1..nr_cpus).map(CpuId), move |cpu| {
            // Unpinned is slower, not wrong.
            std::mem::forget(affinity::pin(pinned_to[cpu.index()]));
        });
        let mut machine = BootMachine { machine: Mutex::new(machine), regions, boot_memory: Vec::new() };
        machine.boot_memory = machine.find_boot_memory()?;
        Ok(machine)
    }

    /// The frames around which a boot puts its records, and what lies beside them.
    fn find_boot_memory(&self) -> Result<Vec<PfnRange>, Failure> {
        let beside = BESIDE_RECORDS / PAGE_SIZE as u64;
        let around = |extent: &RecordExtent| {
            let (first, pages) = (extent.memory.pfn(), extent.len_bytes() / PAGE_SIZE as u64);
            let region = self.regions.iter().map(Region::frames).find(|frames| frames.contains(first));
            let wide = PfnRange::new(Pfn(first.0.saturating_sub(beside)), first.add(pages + beside));
            region.map_or(PfnRange::default(), |region| region.intersect(wide))
        };
        self.with_booted(InitMode::Needed, |_, boot| boot.records.iter().map(around).collect())
    }

    /// Boots once. The records' memory is dirty and present before the clock starts; where records are only
    /// written when they are needed, it holds what the boot before left, and of the first boot nothing.
    ///
    /// # Errors
    /// Where the library refuses the map.
    pub fn boot(&self, when: InitMode) -> Result<Boot, Failure> {
        self.with_booted(when, |_, boot| boot)
    }

    /// Boots once, and calls `f` with the result.
    ///
    /// # Errors
    /// Where the library refuses the map, or a job fails.
    pub fn with_booted<R>(
        &self,
        when: InitMode,
        look: impl FnOnce(&Memory<'_, TimedMachine>, Boot) -> R,
    ) -> Result<R, Failure> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        machine.unclaim_memory();
        let machine = &*machine;
        let _entered = machine.enter(CpuId(0));
        if when != InitMode::Needed {
            self.make_dirty(machine);
        }
        let map = BootMap::new(&self.regions).map_err(Failure::of)?;
        let mut memory = map.claim(machine).map_err(Failure::of)?;
        let workers = workers(&mut memory, when)?;
        let (start, cpu_before) = (Instant::now(), process::cpu_ns());
        let init = match when {
            InitMode::First => RecordInit::Eager,
            InitMode::Job(_) | InitMode::Needed => RecordInit::Deferred,
        };
        let memory = Memory::start(memory, init).map_err(Failure::of)?;
        let frame =
            memory.alloc_frame(AllocRequest::DIRTY).ok_or_else(|| Failure::check("no first frame"))?;
        let first_ns = start.elapsed().as_nanos() as f64;
        let (frames, raw) = (memory.stats().managed, memory.deferred().unclaimed_frames());
        let nodes = Mutex::new(Vec::with_capacity(64));
        let rest = Instant::now();
        if let InitMode::Job(_) = when {
            let done = |node| nodes.lock().unwrap_or_else(PoisonError::into_inner).push(node);
            memory.deferred().initialise(&workers, u32::MAX, &|| false, &done).map_err(Failure::of)?;
        }
        let rest_ns = rest.elapsed().as_nanos() as f64;
        let cpu_ns = (process::cpu_ns() - cpu_before) as f64;
        drop(frame);
        let bytes = |frames| frames * size_of::<FrameMeta<crate::machine::host::Host>>() as u64;
        let boot = Boot {
            first_ns,
            rest_ns,
            cpu_ns,
            first_bytes: bytes(memory.span().len() - raw),
            rest_bytes: bytes(raw - memory.deferred().unclaimed_frames()),
            frames,
            nodes: nodes.into_inner().unwrap_or_else(PoisonError::into_inner),
            records: memory.record_extents().to_vec(),
        };
        Ok(look(&memory, boot))
    }

    fn make_dirty(&self, machine: &TimedMachine) {
        let mut memory = machine.bare_memory();
        self.boot_memory.iter().for_each(|&frames| memory.fill(frames, DIRTY_BYTE));
    }

    /// The nodes, in the order in which they come.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.regions.iter().map(|region| region.node).collect();
        nodes.dedup();
        nodes
    }
}

fn workers<'m>(
    memory: &mut BootMemory<'m, TimedMachine>,
    when: InitMode,
) -> Result<WorkerPool<'m, TimedMachine>, Failure> {
    let helpers = match when {
        InitMode::Job(threads) => threads - 1,
        InitMode::First | InitMode::Needed => 0,
    };
    if helpers == 0 {
        return Ok(WorkerPool::without_helpers(memory.machine()));
    }
    let workers = WorkerPool::spawn(memory.machine(), &mut memory.early_allocator());
    let workers = workers.map_err(Failure::of)?;
    workers.set_max_helpers(helpers as u32);
    // At boot the CPUs have nothing else to do.
    workers.set_poll_limit(HELPER_POLL_LIMIT);
    while !(1..=helpers as u32).all(|cpu| workers.has_helper_racy(CpuId(cpu))) {
        std::thread::yield_now();
    }
    Ok(workers)
}
