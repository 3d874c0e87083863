//! What does it cost to walk tables that may be freed, split and changed at any moment?
//!
//! Counts are of host instructions, one step at a time (`os::instructions`), and exact. `walk.instructions`
//! is a walk of four levels in a read section, beside one of the same tables that assumes that they stay: it
//! decodes the same entries through the same machine, and has neither a section nor anything else that keeps
//! tables. `walk.section` is what the section costs, which serves any number of walks. `walk.translate` is a
//! translation for an emulator that has nothing to mark, `walk.word` a word of a program as a profiler reads
//! two for each call.
//!
//! A scan of 512 pages of one table is held against a loop that reads the same entries and looks at the same
//! bit: `walk.scan_idle` counts instructions for a page where no bit is set; `walk.scan` times a page where
//! each is, which is cleared by a compare-exchange.

use super::{Bar, Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::timed_machine::{self, TimedMachine};
use crate::os::instructions::count;
use interleaf::machine::Entry;
use interleaf::space::{AddressSpace, Fault, Layout, MapRequest, Path, Place};
use interleaf::table::format::X86_64;
use interleaf::table::{NoteUse, walk};
use interleaf::units::{Access, CpuId, Level, PAGE_SIZE, VirtAddr, Vpn, VpnRange};
use std::hint::black_box;
use std::io;
use std::time::Instant;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "walk",
    question: "What does a walk of tables cost that may go at any moment?",
    figures: &[
        "walk.instructions",
        "walk.section",
        "walk.translate",
        "walk.word",
        "walk.scan_idle",
        "walk.scan",
    ],
    run,
};

const PAGE: u64 = PAGE_SIZE as u64;
/// Pages of one table.
const PAGES: u64 = Level::Pte.table_pages();
/// Where they are: the start of a table.
const BASE: VirtAddr = VirtAddr(1 << 40);

type Space<'v> = AddressSpace<'v, TimedMachine>;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let pinned = options.pin();
    let machine = timed_machine::machine(options, 4096)?;
    let entered = machine.enter(CpuId(0));
    let vm = timed_machine::vm(&machine)?;
    let space =
        Space::new(&vm, Layout::linux::<X86_64>().overcommit(), Path::Speculative).map_err(Failure::of)?;
    let running = space.activate(None);
    let request = MapRequest { place: Place::Fixed(BASE), ..MapRequest::anonymous(PAGES * PAGE) };
    space.map(&request).map_err(Failure::of)?;
    for page in 0..PAGES {
        let addr = VirtAddr(BASE.0 + page * PAGE);
        space.fault(Fault { addr, access: Access::Write }).expect("the mapping is writable");
    }
    let mut figures = counts(options, &machine, &space)?;
    figures.push(scan_time(options, &space));
    drop(running);
    drop(space);
    drop((entered, pinned));
    Ok(figures)
}

/// Instructions for one call of `f` with each of some pages, without those around the loop.
fn per_page(options: &Options, f: impl Fn(Vpn)) -> io::Result<f64> {
    let times = options.size(256, 16);
    let calls = |times: u64| count(|| (0..black_box(times)).for_each(|nth| f(Vpn(BASE.vpn().0 + nth))));
    Ok((calls(2 * times)? - calls(times)?) as f64 / times as f64)
}

fn counts(options: &Options, machine: &TimedMachine, space: &Space<'_>) -> Result<Vec<Figure>, Failure> {
    let (vm, root) = (space.vm(), space.root());
    let reading = vm.read();
    let walked = per_page(options, |page| {
        if let Entry::Leaf(leaf) = walk(space.inspect().page_table(), page, Level::Pte, &reading).entry() {
            black_box(leaf.pfn);
        }
    })?;
    let stable = per_page(options, |page| {
        if let Some(leaf) = machine.leaf_below(root, page) {
            black_box(leaf.pfn);
        }
    })?;
    let translated = per_page(options, |page| {
        let _ = black_box(space.walker().translate_access(
            page.addr(),
            Access::Write,
            NoteUse::AsHardware,
            &reading,
        ));
    })?;
    drop(reading);
    let section = per_page(options, |_| drop(black_box(vm.read_in_handler())))?;
    let section_of_words = vm.read_in_handler();
    let word = per_page(options, |page| {
        let _ = black_box(space.walker().read_word_in_handler(page.addr(), &section_of_words));
    })?;
    drop(section_of_words);
    let against = Figure::count_against(
        "walk.instructions",
        walked,
        "instructions/walk",
        "a walk of tables that stay",
        stable,
    );
    // Debug builds assert on the way: their instructions say nothing of users' builds.
    let judged = if cfg!(debug_assertions) { against } else { against.with_bar(Bar::AtMost(1.05)) };
    Ok(vec![
        judged,
        Figure::count("walk.section", section, "instructions"),
        Figure::count("walk.translate", translated, "instructions"),
        Figure::count("walk.word", word, "instructions"),
        scan_count(space)?,
    ])
}

fn pages() -> VpnRange {
    VpnRange::new(BASE.vpn(), BASE.vpn().add(PAGES))
}

/// Scans all pages.
fn scan(space: &Space<'_>) {
    let reading = space.vm().read();
    black_box(space.walker().scan_accessed(pages(), &reading, |pages, _| {
        black_box(pages);
    }));
}

/// Reads the entries of all pages, and counts those that were used.
fn read(space: &Space<'_>) {
    let reading = space.vm().read();
    let table = walk(space.inspect().page_table(), BASE.vpn(), Level::Pte, &reading).table;
    let used = |slot: &usize| matches!(table.entry(*slot), Entry::Leaf(leaf) if leaf.accessed);
    black_box((0..Level::ENTRIES).filter(used).count());
}

/// Marks all pages as used.
fn mark(space: &Space<'_>) {
    let reading = space.vm().read();
    for page in pages().start.0..pages().end.0 {
        let marked =
            space.walker().translate_access(Vpn(page).addr(), Access::Read, NoteUse::AsHardware, &reading);
        assert!(marked.is_ok(), "the page is there");
    }
}

fn scan_count(space: &Space<'_>) -> Result<Figure, Failure> {
    scan(space);
    let none = count(|| ())?;
    let per_page = |all: u64| (all - none) as f64 / PAGES as f64;
    let (scanned, read) = (per_page(count(|| scan(space))?), per_page(count(|| read(space))?));
    Ok(Figure::count_against(
        "walk.scan_idle",
        scanned,
        "instructions/page",
        "a loop that reads the entries",
        read,
    ))
}

fn scan_time(options: &Options, space: &Space<'_>) -> Figure {
    let times = options.size(200, 2);
    let timed = |f: fn(&Space<'_>)| {
        let mut ns = 0;
        for _ in 0..times {
            mark(space);
            let began = Instant::now();
            f(space);
            ns += began.elapsed().as_nanos();
        }
        ns as f64 / (times * PAGES) as f64
    };
    paired(options, "walk.scan", "ns/page", || timed(scan), "a loop that reads the entries", || timed(read))
}
