//! The kernel's memory: all of it becomes the library's, and the kernel's own mappings are made of it.
//!
//! | file | holds |
//! |---|---|
//! | this one | the virtual-memory system, started from the firmware's map; its workers |
//! | [`tables`] | the kernel's page tables, made with the library |
#![forbid(unsafe_code)]

pub mod tables;

use crate::arch::loader::Loader;
use crate::arch::{Core, MACHINE, Metal, Once, clock, helpers, registers, space};
use crate::report;
use core::sync::atomic::{AtomicU64, Ordering::*};
use interleaf::frame::{BootError, HugetlbCounts, NodeInitReport, RecordInit};
use interleaf::machine::Cpu;
use interleaf::space::{Spaces, Vm, VmOptions};
use interleaf::units::{CpuId, NodeId, PageSize};
use interleaf::vma::{HugePolicy, ZeroPagePolicy};
use interleaf::work::WorkerPool;
use interleaf_kernel::core::firmware::{self, MAX_ENTRIES, MapError};

/// The virtual-memory system.
static VM: Once<Vm<'static, Metal>> = Once::new();

/// The spaces of programs, which their threads keep.
static SPACES: Once<Spaces<'static, Metal>> = Once::new();

/// The workers of large jobs.
static WORKERS: Once<WorkerPool<'static, Metal>> = Once::new();
/// Cycles from the beginning to the end of the library's own start: from then on frames can be had.
static STARTED_IN: AtomicU64 = AtomicU64::new(0);

/// The virtual-memory system.
#[inline]
pub fn vm() -> &'static Vm<'static, Metal> {
    VM.get()
}

/// The spaces of programs.
pub fn spaces() -> &'static Spaces<'static, Metal> {
    SPACES.get()
}

/// Gives the library the firmware's usable memory, and loads tables made with the library.
/// Private memory gets huge pages as `huge` says, and what is only read there the zero page of `zero`.
pub fn init(loader: &Loader, start: RecordInit, (huge, zero): (HugePolicy, ZeroPagePolicy)) {
    let refuse = |why: MapError| -> ! { report::refuse("the memory map", &why) };
    let nr_told = loader.nr_entries();
    if nr_told > MAX_ENTRIES {
        refuse(MapError::TooManyEntries(nr_told));
    }
    let (mut ram, mut nr_ram) = ([const { 0..0 }; MAX_ENTRIES], 0);
    let collected = firmware::each_usable(loader.entries(), |range| {
        ram[nr_ram] = range;
        nr_ram += 1;
    });
    collected.unwrap_or_else(|why| refuse(why));
    let ram = &ram[..nr_ram];
    let end = ram.iter().map(|range| range.end).max().unwrap_or(0);
    let reach = space::extend_boot_map(end);
    if reach < end {
        crate::println!("memory beyond {} GiB is left alone: this CPU has no pages of 1 GiB", reach >> 30);
    }
    let map = loader.boot_map(reach).unwrap_or_else(|why| refuse(why));
    let mut memory = map.claim(&MACHINE).unwrap_or_else(|why| refuse(MapError::Boot(why)));
    let workers = WorkerPool::spawn(&MACHINE, &mut memory.early_allocator());
    let workers = WORKERS.set(workers.unwrap_or_else(|why| refuse(MapError::Boot(why.into()))));
    let from = registers::time_stamp();
    let options = VmOptions {
        records: start,
        workers: Some(workers),
        huge_pages: huge,
        zero_page: zero,
        // As Linux's default.
        fault_around_bytes: 64 << 10,
        ..VmOptions::default()
    };
    let vm = Vm::start(memory, options).unwrap_or_else(|why| refuse(MapError::Boot(why)));
    STARTED_IN.store(registers::time_stamp() - from, Relaxed);
    let vm = VM.set(vm);
    SPACES.set(Spaces::new(vm).unwrap_or_else(|_| refuse(MapError::Boot(BootError::TooSmall))));
    let giant = registers::Features::of_this_cpu().giant_pages;
    if tables::build(vm.memory(), ram, giant).is_err() {
        report::refuse("memory", &"there is not enough for the kernel's own tables");
    }
}

/// Age in nanoseconds that garbage of a CPU reaches at most while programs run there, but for four ticks.
const MAX_GARBAGE_AGE_NS: u64 = 8_000_000;

/// Called on the way to ring 3 at a tick: frees garbage that has waited for long. A CPU that runs a program
/// which never calls the kernel neither retires nor idles.
pub fn tick() {
    vm().tick(MAX_GARBAGE_AGE_NS);
}

/// The workers of large jobs.
pub fn workers() -> &'static WorkerPool<'static, Metal> {
    WORKERS.get()
}

/// Nanoseconds that helpers get to start.
const COME_NS: u64 = 100_000_000;

/// Starts the helpers, has all CPUs write the frame records that wait, and says what that took. All CPUs are
/// there.
pub fn initialise(start: RecordInit) {
    let first_us = clock::cycles_to_ns(STARTED_IN.load(Relaxed)) / 1000;
    crate::println!("memory: the first frame could be had after {first_us} us");
    let helpers = helpers::start();
    if start == RecordInit::Eager {
        return;
    }
    let (me, until) = (Core::id(), Core::now_ns() + COME_NS);
    let others = (0..helpers).map(CpuId).filter(|&cpu| cpu != me);
    while Core::now_ns() < until && !others.clone().all(|cpu| workers().has_helper_racy(cpu)) {
        Core::relax();
    }
    let told = |done: NodeInitReport| {
        let (NodeId(node), frames, us) = (done.node, done.frames, done.took_ns / 1000);
        let cpus = done.spent.helpers + 1;
        crate::println!("memory: node {node} initialised, {frames} frames in {us} us by {cpus} CPUs");
    };
    let written = vm().memory().deferred().initialise(workers(), helpers, &|| false, &told);
    assert!(written.is_ok(), "the initialisation is never stopped");
}

/// Sets `pages` huge pages of 2 MiB aside for the hugetlb pool, as many as there are, and says how many.
pub fn set_huge_pool_aside(pages: u64) {
    if pages == 0 {
        return;
    }
    let HugetlbCounts { total, .. } = vm().resize_hugetlb(PageSize::Huge, pages);
    crate::println!("memory: {total} of {pages} huge pages are set aside for the hugetlb pool");
}

/// MiB that the library manages.
pub fn mib() -> u64 {
    vm().memory().stats().managed >> 8
}
