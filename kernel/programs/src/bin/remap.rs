//! mremap: what pages hold goes with them.
//!
//! `remap [ROUNDS]`. Beside single calls, a thread puts new pages over those that others read, by one call
//! each: no reader meets a hole, and none sees a page that is older than what was there when its load began.
//!
//! ```text
//! writer    write g+1 elsewhere | mremap it to the place | publish g+1
//! reader             g = published ... value = place ... value is at least g
//! ```
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use interleaf_programs::dice::mix;
use interleaf_programs::say::granted;
use interleaf_programs::sys::{
    self, Args, EFAULT, EINVAL, Forked, LEAVE, MAY_MOVE, MOVE_TO, Region, Rights, Shared,
};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Pages that are replaced in each round.
const PAGES: usize = 4;
const READERS: usize = 2;
/// The word of a page that says which page it is.
const WORD: usize = 77;

static PLACE: Shared = Shared::new();
/// What the pages of the place hold, at least. SeqCst: its order with reads of the pages is the question.
static PUBLISHED: AtomicU64 = AtomicU64::new(0);
/// Set when all readers are to stop. Relaxed: it orders nothing.
static STOP: AtomicBool = AtomicBool::new(false);
/// Relaxed: only the sum counts.
static READS: AtomicU64 = AtomicU64::new(0);

fn begin(args: Args) -> u8 {
    let rounds = args.number(1, 300) as u64;
    contents();
    words();
    children();
    replaced_while_read(rounds);
    say!(
        "remap: {rounds} rounds, {} reads beside them, pages held what they should",
        READS.load(Ordering::Relaxed)
    );
    GOOD
}

fn fill(region: &Region, first: usize, pages: usize) {
    (0..pages).for_each(|page| region.write(page, WORD, mix((first + page) as u64)));
}

fn check(region: &Region, first: usize, pages: usize) {
    for page in 0..pages {
        let found = region.read(page, WORD);
        holds!(found == mix((first + page) as u64), "page {page} holds {found:#x} after a move");
    }
}

/// Longer, elsewhere, shorter, over others, and with the old mapping kept.
fn contents() {
    const MANY: usize = 1200;
    let room = granted("mmap", Region::map(4 * MANY, Rights::NONE));
    let start = granted("mmap", Region::map(MANY, Rights::WRITE));
    fill(&start, 0, MANY);
    let longer = granted("mremap", start.remap(MANY + 1, MAY_MOVE, 0));
    fill(&longer.part(MANY, 1), MANY, 1);
    check(&longer, 0, MANY);
    let place = room.part(3, MANY + 1);
    let moved = granted("mremap", longer.remap(MANY + 1, MOVE_TO, place.start()));
    holds!(moved.start() == place.start(), "the place is {:#x}", moved.start());
    check(&moved, 0, MANY);
    let shorter = granted("mremap", moved.remap(MANY / 2, 0, 0));
    check(&shorter, 0, MANY / 2);
    let far = room.part(2 * MANY, MANY / 2);
    let left = granted("mremap", shorter.remap(MANY / 2, LEAVE | MOVE_TO, far.start()));
    check(&left, 0, MANY / 2);
    holds!((0..MANY / 2).all(|page| shorter.read(page, WORD) == 0), "what was left is not empty");
    let twice = granted("mmap", Region::map_shared(4, Rights::WRITE));
    twice.write(2, 0, 7);
    let again = granted("mremap", Region::remap(&twice.part(0, 0), 4, MAY_MOVE, 0));
    again.write(3, 0, 8);
    holds!((again.read(2, 0), twice.read(3, 0)) == (7, 8), "shared memory is mapped once more");
    [room, twice, again].iter().for_each(|region| granted("munmap", region.unmap()));
}

/// What is refused changes nothing.
fn words() {
    let region = granted("mmap", Region::map(4, Rights::WRITE));
    fill(&region, 0, 4);
    let refused = |what: &str, got: Result<Region, sys::Errno>, due| {
        holds!(got.map(|at| at.start()) == Err(due), "{what} is not refused as by Linux");
    };
    refused("an unknown flag", region.remap(4, 8, 0), EINVAL);
    refused("no length", region.remap(0, MAY_MOVE, 0), EINVAL);
    refused("a place inside of a page", region.remap(4, MOVE_TO, region.start() + 5), EINVAL);
    refused("a place over itself", region.remap(4, MOVE_TO, region.part(1, 1).start()), EINVAL);
    refused("more with the old one kept", region.remap(5, LEAVE, 0), EINVAL);
    granted("munmap", region.part(0, 1).unmap());
    refused("a hole", region.remap(4, MAY_MOVE, 0).and(region.remap(5, MAY_MOVE, 0)), EFAULT);
    check(&region.part(1, 3), 1, 3);
    granted("munmap", region.unmap());
}

/// A child finds what moved before it was made, and each its own afterwards.
fn children() {
    let region = granted("mmap", Region::map(64, Rights::WRITE));
    fill(&region, 0, 64);
    let moved = granted("mremap", region.part(8, 40).remap(41, MAY_MOVE, 0));
    let child = match granted("fork", sys::fork()) {
        Forked::Parent(child) => child,
        Forked::Child => {
            let again = granted("mremap", moved.remap(60, MAY_MOVE, 0));
            check(&again, 8, 40);
            fill(&again, 100, 40);
            check(&again, 100, 40);
            sys::exit_group(GOOD)
        }
    };
    fill(&moved.part(0, 4), 50, 4);
    let (ended, how) = granted("wait4", sys::wait(Some(child)));
    holds!((ended, how) == (child, 0), "the child ended with {how:#x}");
    check(&moved.part(4, 36), 12, 36);
    check(&moved, 50, 4);
    [region, moved].iter().for_each(|region| granted("munmap", region.unmap()));
}

/// New pages come over those that others read, by one call each.
fn replaced_while_read(rounds: u64) {
    let place = granted("mmap", Region::map(PAGES, Rights::WRITE));
    PLACE.set(place);
    let readers: [_; READERS] = core::array::from_fn(|index| granted("clone", sys::spawn(read, index)));
    sys::move_to_cpu(0);
    let mut generation = 0;
    while generation < rounds || READS.load(Ordering::Relaxed) < rounds {
        generation += 1;
        let fresh = granted("mmap", Region::map(PAGES, Rights::WRITE));
        (0..PAGES).for_each(|page| fresh.write(page, 0, generation));
        granted("mremap", fresh.remap(PAGES, MOVE_TO, place.start()));
        PUBLISHED.store(generation, Ordering::SeqCst);
        if generation.is_multiple_of(16) {
            sys::yield_now();
        }
    }
    STOP.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(sys::Thread::join);
    granted("munmap", place.unmap());
}

fn read(index: usize) {
    sys::move_to_cpu(index % sys::cpus());
    let place = PLACE.get();
    let mut page = index;
    while !STOP.load(Ordering::Relaxed) {
        page = (page + 1) % PAGES;
        let due = PUBLISHED.load(Ordering::SeqCst);
        let found = place.read(page, 0);
        holds!(found >= due, "page {page} reads generation {found}, after {due} was there");
        if READS.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
            sys::yield_now();
        }
    }
}
