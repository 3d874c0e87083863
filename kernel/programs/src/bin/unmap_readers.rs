//! Unmapping while others read: when munmap has returned, no CPU uses the old translation.
//!
//! `unmap_readers [READERS] [ROUNDS]`. One thread maps pages, publishes the number of the generation, writes
//! it into them, and unmaps them again; readers read all the while:
//!
//! ```text
//! writer    map g+1 | publish g+1 | write g+1 ......... munmap | map g+2 | publish g+2
//! reader                  g = published ... value = page ... value is 0, or at least g
//! ```
//!
//! A reader that sees an older number than was published before its load has used a translation that munmap
//! should have flushed. A third kind of thread poisons pages of its own and replaces them, so that a frame
//! that is freed too early comes back with the poison in it. (It never lets the kernel choose an address,
//! which may be the gap.) A reader that meets the gap between munmap and mmap gets SIGSEGV, and its handler
//! waits until the pages are back; without handlers the pages are replaced in one call instead.
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, ENOSYS, Region, Rights, SegFault, Shared};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Pages that come and go.
const PAGES: usize = 8;
/// Written into pages that no reader may ever see.
const POISON: u64 = 0x5a5a_5a5a_5a5a_5a5a;
/// Most readers.
const READERS: usize = 16;

static REGION: Shared = Shared::new();
static POISONED: Shared = Shared::new();
/// The generation whose pages are mapped. SeqCst: its order with reads of the pages is the question.
static PUBLISHED: AtomicU64 = AtomicU64::new(0);
/// Whether pages are mapped. Release by the writer, Acquire by handlers that wait.
static THERE: AtomicBool = AtomicBool::new(true);
/// Set when all threads are to stop. Relaxed: it orders nothing.
static STOP: AtomicBool = AtomicBool::new(false);
/// Reads that were checked, and faults that waited. Relaxed: only the sums count.
static READS: AtomicU64 = AtomicU64::new(0);
static WAITED: AtomicU64 = AtomicU64::new(0);

fn begin(args: Args) -> u8 {
    let cpus = sys::cpus();
    let readers = args.number(1, cpus.max(2)).clamp(1, READERS);
    let rounds = args.number(2, 200) as u64;
    let region = granted("mmap", Region::map(PAGES, Rights::WRITE));
    REGION.set(region);
    let handlers = match sys::on_segfault(wait_for_pages) {
        Err(ENOSYS) => false,
        other => {
            granted("rt_sigaction", other);
            true
        }
    };
    let threads: [_; READERS] =
        core::array::from_fn(|index| (index < readers).then(|| granted("clone", sys::spawn(read, index))));
    POISONED.set(granted("mmap", Region::map(PAGES, Rights::WRITE)));
    let poisoner = granted("clone", sys::spawn(poison, cpus - 1));
    sys::move_to_cpu(0);
    let mut generation = 0;
    // At least `rounds` rounds, and until every reader has run.
    while generation < rounds || READS.load(Ordering::Relaxed) < rounds {
        generation += 1;
        turn(&region, generation, handlers);
        if generation.is_multiple_of(16) {
            sys::yield_now();
        }
    }
    STOP.store(true, Ordering::Relaxed);
    threads.into_iter().flatten().for_each(sys::Thread::join);
    poisoner.join();
    let (reads, waited) = (READS.load(Ordering::Relaxed), WAITED.load(Ordering::Relaxed));
    say!(
        "unmap_readers: {generation} generations, {reads} reads by {readers} threads, none stale; \
         {waited} faults waited"
    );
    GOOD
}

/// One generation: the old pages go, new ones come, are published and written.
fn turn(region: &Region, generation: u64, handlers: bool) {
    if handlers {
        THERE.store(false, Ordering::Release);
        granted("munmap", region.unmap());
    }
    granted("mmap", region.replace(Rights::WRITE));
    PUBLISHED.store(generation, Ordering::SeqCst);
    THERE.store(true, Ordering::Release);
    (0..PAGES).for_each(|page| region.write(page, 0, generation));
}

/// The handler: the pages will be back.
fn wait_for_pages(fault: SegFault) {
    let region = REGION.get();
    let inside = (region.start()..region.part(PAGES, 0).start()).contains(&fault.address);
    holds!(inside && !fault.mapped, "an unexpected fault at {:#x}", fault.address);
    WAITED.fetch_add(1, Ordering::Relaxed);
    while !THERE.load(Ordering::Acquire) {
        sys::yield_now();
    }
}

fn read(index: usize) {
    sys::move_to_cpu((index + 1) % sys::cpus());
    let region = REGION.get();
    let mut passes = 0u32;
    while !STOP.load(Ordering::Relaxed) {
        for page in 0..PAGES {
            let before = PUBLISHED.load(Ordering::SeqCst);
            let value = region.read(page, 0);
            let after = PUBLISHED.load(Ordering::SeqCst);
            let good = value == 0 || (before..=after).contains(&value);
            holds!(good, "page {page} holds {value:#x} while generation {before} to {after} is mapped");
        }
        READS.fetch_add(PAGES as u64, Ordering::Relaxed);
        passes += 1;
        if passes.is_multiple_of(64) {
            // The writer must run where there are more threads than CPUs.
            sys::yield_now();
        }
    }
}

fn poison(cpu: usize) {
    sys::move_to_cpu(cpu);
    let own = POISONED.get();
    while !STOP.load(Ordering::Relaxed) {
        for page in 0..PAGES {
            holds!(own.read(page, 0) == 0, "a fresh page is not zero");
            own.write(page, 0, POISON);
        }
        granted("mmap", own.replace(Rights::WRITE));
        sys::yield_now();
    }
}
