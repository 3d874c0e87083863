//! MADV_DONTNEED of the same page from two CPUs at once: a caller that has returned reads zero.
//!
//! `dontneed [ROUNDS]`. The danger is the second caller: it finds the page gone already, has nothing to
//! flush, and returns while its own CPU still holds the translation that the first has not flushed yet.
//!
//! ```text
//! A   unhooks the page ................ flushes ... returns, reads 0
//! B        finds nothing | returns, reads: must be 0, even though A has not flushed
//! ```
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use interleaf_programs::dice::{Dice, mix};
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, Region, Rights, Shared};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Pages, of which a random run is dropped in each round by each thread; both runs hold the middle page.
const PAGES: usize = 32;
const MIDDLE: usize = PAGES / 2;
const THREADS: u32 = 2;

static REGION: Shared = Shared::new();
/// Barrier of both threads: number of arrivals. SeqCst, for simplicity.
static ARRIVED: AtomicU32 = AtomicU32::new(0);
static ROUNDS: AtomicU64 = AtomicU64::new(0);

fn begin(args: Args) -> u8 {
    let rounds = args.number(1, 300);
    ROUNDS.store(rounds as u64, Ordering::Relaxed);
    REGION.set(granted("mmap", Region::map(PAGES, Rights::WRITE)));
    let other = granted("clone", sys::spawn(drop_pages, 1));
    drop_pages(0);
    other.join();
    say!("dontneed: {rounds} rounds of two threads, every page that was dropped read zero");
    GOOD
}

fn drop_pages(index: usize) {
    sys::move_to_cpu(index % sys::cpus());
    let region = REGION.get();
    let mut dice = Dice::new(index as u64);
    let mut met = 0;
    for round in 0..ROUNDS.load(Ordering::Relaxed) {
        if index == 0 {
            (0..PAGES).for_each(|page| region.write(page, 0, mix(round) | 1));
        }
        meet(&mut met);
        // Both CPUs hold the translations now.
        for page in 0..PAGES {
            holds!(
                region.read(page, 0) == mix(round) | 1,
                "page {page} is not what was written in round {round}"
            );
        }
        meet(&mut met);
        let first = dice.below(MIDDLE);
        let run = region.part(first, MIDDLE + 1 - first + dice.below(PAGES - MIDDLE));
        granted("madvise", run.dont_need());
        for page in 0..run.pages() {
            let value = run.read(page, 0);
            holds!(
                value == 0,
                "page {} reads {value:#x} after it was dropped in round {round}",
                first + page
            );
        }
        meet(&mut met);
    }
}

/// Waits until both threads have arrived.
fn meet(met: &mut u32) {
    *met += THREADS;
    ARRIVED.fetch_add(1, Ordering::SeqCst);
    let mut looks = 0u32;
    while ARRIVED.load(Ordering::SeqCst).wrapping_sub(*met) as i32 & i32::MIN != 0 {
        looks += 1;
        if looks.is_multiple_of(1024) {
            sys::yield_now();
        }
        core::hint::spin_loop();
    }
}
