//! The cost of the smallest operations, in ticks of the time-stamp counter: one line `count NAME VALUE` for
//! each.
//!
//! `cost [BATCHES]`. In an emulator that counts guest instructions the ticks are instructions, and a run
//! gives the same numbers every time. Each figure is the smallest mean of some batches, so that a timer's
//! tick in one of them does not count, nor the start, while pools are still filled (a CPU's garbage waits
//! for three lots of it: some hundred mappings); the loop around the operation, a few instructions, is in
//! it, but not in `zeroing` and `copying_...`: the steps alone. All kernels run the same program, so that
//! their figures can be compared.
//!
//! `copy_on_write` is the first store to a page that a child shares, copying included: 4096 steps where a
//! kernel copies bytes, 512 where it copies words. `reuse` is the first store to a page after the child has
//! ended.
//!
//! `zone_fault` and `zone_unmap_page` are of more pages than a CPU keeps frames: with the part of a refill
//! and of a drain that each frame has.
//!
//! `cost huge [BATCHES]`, on a machine whose policy of huge pages is `always`: faults of huge pages, and
//! `zeroing_huge`, the steps of zeroing one.
#![cfg_attr(metal, no_std, no_main)]

use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, Forked, Region, Rights};
use interleaf_programs::{GOOD, program, say};

program!(begin);

/// Pages of a batch: as many as one table holds.
const PAGES: usize = 512;
/// Pages of a batch whose frames come from a zone and go back to it: eight times what a CPU keeps.
const ZONE_PAGES: usize = 8 * PAGES;
/// Calls of a batch.
const CALLS: u64 = 512;
/// Mappings of a batch.
const MAPS: usize = 64;
/// Pages of a MiB.
const MIB: usize = 256;

fn begin(args: Args) -> u8 {
    if args.word(1) == Some("huge") {
        return huge(args.number(2, 8).max(1));
    }
    let batches = args.number(1, 32).max(1);
    count("null_call", batches, CALLS as usize, || timed(|| sys::ask_nothing(CALLS)));
    let page = granted("mmap", Region::map(1, Rights::WRITE));
    page.write(0, 0, 0);
    let zero = |words| (0..batches).map(|_| timed(|| (0..PAGES).for_each(|_| page.zero(0, words)))).min();
    let steps = zero(sys::PAGE / 8).unwrap_or(0).saturating_sub(zero(0).unwrap_or(0));
    count("zeroing", 1, PAGES, || steps);
    for (name, width) in [("copying_bytes", 1), ("copying_words", 8)] {
        let copy = |steps| timed(|| (0..PAGES).for_each(|_| page.copy_to_itself(0, steps, width)));
        let copy = |steps| (0..batches).map(|_| copy(steps)).min();
        let steps = copy(sys::PAGE / width).unwrap_or(0).saturating_sub(copy(0).unwrap_or(0));
        count(name, 1, PAGES, || steps);
    }
    count("write_fault", batches, PAGES, || touch(PAGES, Region::write_page, false));
    count("read_fault", batches, PAGES, || touch(PAGES, Region::read_page, false));
    count("unmap_page", batches, PAGES, || touch(PAGES, Region::write_page, true));
    count("unmap_zero_page", batches, PAGES, || touch(PAGES, Region::read_page, true));
    let zone = |unmapping| touch(ZONE_PAGES, Region::write_page, unmapping);
    count("zone_fault", batches.min(8), ZONE_PAGES, || zone(false));
    count("zone_unmap_page", batches.min(8), ZONE_PAGES, || zone(true));
    count("copy_on_write", batches, PAGES, || write_shared(Child::Lives));
    count("reuse", batches, PAGES, || write_shared(Child::HasEnded));
    count("map_unmap_mib", batches, MAPS, || timed(|| (0..MAPS).for_each(|_| map_and_unmap())));
    GOOD
}

/// Counts what huge pages cost.
fn huge(batches: usize) -> u8 {
    let one = huge_region(1);
    one.write_page(0);
    let zero = |words| (0..2).map(|_| timed(|| one.zero(0, words))).min();
    let steps = zero(HUGE * sys::PAGE / 8).unwrap_or(0).saturating_sub(zero(0).unwrap_or(0));
    count("zeroing_huge", 1, 1, || steps);
    count("huge_read_fault", batches, READ, || touch_huge(READ, Region::read_page, false));
    count("huge_write_fault", batches, WRITTEN, || touch_huge(WRITTEN, Region::write_page, false));
    count("huge_unmap", batches, WRITTEN, || touch_huge(WRITTEN, Region::write_page, true));
    GOOD
}

/// Base pages of a huge one.
const HUGE: usize = 512;
/// Huge pages of a batch that are read: as many as one table holds; and of one that are written: 64 MiB.
const READ: usize = 512;
const WRITTEN: usize = 32;

/// So many whole huge pages, whose entries are in one table where they fit into one.
fn huge_region(huge_pages: usize) -> Region {
    let whole = if huge_pages > WRITTEN { READ * HUGE } else { HUGE };
    let all = granted("mmap", Region::map_uncommitted(huge_pages * HUGE + whole, Rights::WRITE));
    let first = (all.start() / sys::PAGE).next_multiple_of(whole) - all.start() / sys::PAGE;
    all.part(first, huge_pages * HUGE)
}

/// Touches a page in each huge page of a fresh mapping, then unmaps them one by one; the ticks of the
/// touching or of the unmapping.
fn touch_huge(huge_pages: usize, one: fn(&Region, usize), unmapping: bool) -> u64 {
    let region = huge_region(huge_pages);
    let touching = timed(|| (0..huge_pages).for_each(|nth| one(&region, nth * HUGE)));
    let leaving = timed(|| {
        (0..huge_pages).for_each(|nth| granted("munmap", region.part(nth * HUGE, HUGE).unmap()));
    });
    if unmapping { leaving } else { touching }
}

/// The smallest mean of `batches` batches of `operations`, with two decimals.
fn count(name: &str, batches: usize, operations: usize, batch: impl Fn() -> u64) {
    let least = (0..batches).map(|_| batch()).min().unwrap_or(0);
    let hundredths = (least * 100 + operations as u64 / 2) / operations as u64;
    say!("count {name} {}.{:02}", hundredths / 100, hundredths % 100);
}

fn timed(work: impl FnOnce()) -> u64 {
    let start = sys::ticks();
    work();
    sys::ticks() - start
}

/// Touches so many pages of a fresh mapping, then unmaps it; the ticks of the touching or of the unmapping.
fn touch(pages: usize, one: fn(&Region, usize), unmapping: bool) -> u64 {
    // A table's worth more, of which only the part that fills whole tables is used.
    let all = granted("mmap", Region::map(pages + PAGES, Rights::WRITE));
    let aligned = (all.start() / sys::PAGE).next_multiple_of(PAGES) - all.start() / sys::PAGE;
    let region = all.part(aligned, pages);
    let touching = timed(|| (0..pages).for_each(|page| one(&region, page)));
    let leaving = timed(|| granted("munmap", region.unmap()));
    granted("munmap", all.unmap());
    if unmapping { leaving } else { touching }
}

/// What the child does that shared the pages, while its parent writes to them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Child {
    Lives,
    HasEnded,
}

/// Forks after each page of a fresh mapping was written, and writes each once more: the ticks of that.
fn write_shared(child: Child) -> u64 {
    let all = granted("mmap", Region::map(2 * PAGES, Rights::WRITE));
    let aligned = (all.start() / sys::PAGE).next_multiple_of(PAGES) - all.start() / sys::PAGE;
    let region = all.part(aligned, PAGES);
    let word = granted("mmap", Region::map_shared(1, Rights::WRITE));
    word.write(0, 0, u64::from(child == Child::HasEnded));
    (0..PAGES).for_each(|page| region.write_page(page));
    let Forked::Parent(made) = granted("fork", sys::fork()) else {
        while word.read(0, 0) == 0 {
            sys::yield_now();
        }
        sys::exit_group(GOOD)
    };
    let wait = || granted("wait4", sys::wait(Some(made)));
    if child == Child::HasEnded {
        wait();
    }
    let writing = timed(|| (0..PAGES).for_each(|page| region.write_page(page)));
    word.write(0, 0, 1);
    if child == Child::Lives {
        wait();
    }
    granted("munmap", all.unmap());
    granted("munmap", word.unmap());
    writing
}

fn map_and_unmap() {
    let region = granted("mmap", Region::map(MIB, Rights::WRITE));
    granted("munmap", region.unmap());
}
