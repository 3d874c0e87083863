//! Base pages that become huge ones without any call: their contents stay, and a thread that stores to them
//! meanwhile loses nothing.
//!
//! `khugepaged [collapsed]`. With the word the kernel must collapse them while the program waits: its thread
//! looks every few milliseconds, and no other memory gets huge pages. Without it contents alone are checked,
//! after a moment.
#![cfg_attr(metal, no_std, no_main)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use interleaf_programs::say::granted;
use interleaf_programs::sys::{
    self, Args, EINVAL, HUGEPAGE, NOHUGEPAGE, Region, Rights, Shared, number_in, read_file,
};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Base pages of a huge one, and its KiB.
const HUGE: usize = 512;
const HUGE_KIB: u64 = 2048;
/// Huge pages of the region, and its base pages.
const NR: usize = 3;
const PAGES: usize = NR * HUGE;
/// Stores in a round. A region most of whose pages are stored to while it is copied is left as it is, and an
/// emulator may run the other thread alone for long.
const AT_ONCE: u64 = 16;
/// Rounds that the program waits: of a look at its file each.
const ROUNDS: usize = 50_000;
const ROUNDS_UNKNOWN: usize = 20;

const PAGES_COLLAPSED: &CStr = c"/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed";
const FULL_SCANS: &CStr = c"/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans";

static REGION: Shared = Shared::new();
/// Stores of the other thread. Relaxed: its end orders them.
static STORED: AtomicU64 = AtomicU64::new(0);
/// The round. Relaxed: it orders nothing.
static ROUND: AtomicU32 = AtomicU32::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// The number that is all of a file.
fn number(file: &CStr) -> u64 {
    let mut text = [0; 32];
    let text = read_file(file, &mut text).unwrap_or(b"");
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// KiB of huge pages that the process has.
fn huge_kib() -> u64 {
    let mut text = [0; 4096];
    let text = read_file(c"/proc/self/smaps_rollup", &mut text);
    text.ok().and_then(|text| number_in(text, "AnonHugePages")).unwrap_or(0)
}

fn begin(args: Args) -> u8 {
    let must = args.word(1).is_some();
    let all = granted("mmap", Region::map((NR + 1) * HUGE, Rights::WRITE));
    let first = (all.start() / sys::PAGE).next_multiple_of(HUGE) - all.start() / sys::PAGE;
    let region = all.part(first, PAGES);
    advise(region, NOHUGEPAGE);
    (0..PAGES).for_each(|page| region.write(page, page % 512, !(page as u64)));
    let before = (huge_kib(), number(PAGES_COLLAPSED));
    REGION.set(region);
    let other = granted("clone", sys::spawn(store, 0));
    advise(region, HUGEPAGE);
    let wanted = before.0 + NR as u64 * HUGE_KIB;
    let rounds = if must { ROUNDS } else { ROUNDS_UNKNOWN };
    let waited = (0..rounds).find(|_| {
        ROUND.fetch_add(1, Ordering::Relaxed);
        sys::yield_now();
        huge_kib() >= wanted
    });
    let came = huge_kib().saturating_sub(before.0) / HUGE_KIB;
    STOP.store(true, Ordering::Relaxed);
    other.join();
    contents(region);
    // The daemon counts a page after it has put it in.
    let told = || number(PAGES_COLLAPSED) - before.1;
    let counted = (0..rounds).map(|_| told()).inspect(|_| sys::yield_now()).find(|told| *told >= NR as u64);
    let collapsed = counted.unwrap_or_else(told);
    if must {
        holds!(waited.is_some(), "{came} of {NR} huge pages have come in {rounds} rounds");
        holds!(collapsed == NR as u64, "{collapsed} collapses are told of {NR}");
    }
    let (stores, scans) = (STORED.load(Ordering::Relaxed), number(FULL_SCANS));
    say!("khugepaged: {came} huge pages of base pages, {stores} stores meanwhile, {scans} full scans");
    GOOD
}

fn advise(region: Region, advice: usize) {
    // A kernel without huge pages refuses it.
    let answer = region.advise(advice);
    holds!(matches!(answer, Ok(()) | Err(EINVAL)), "madvise: {answer:?}");
}

/// The word of a page that the other thread stores to.
fn word_of(page: usize) -> usize {
    (page + 100) % 512
}

/// The other thread: stores numbers to the pages in turn, and finds the one of the round before.
fn store(_: usize) {
    let region = REGION.get();
    let mut nr = 0;
    while !STOP.load(Ordering::Relaxed) {
        for n in nr..nr + AT_ONCE {
            let page = n as usize % PAGES;
            let (found, last) = (region.read(page, word_of(page)), (n + 1).saturating_sub(PAGES as u64));
            holds!(found == last, "page {page} holds {found}, not {last}: a store is lost");
            region.write(page, word_of(page), n + 1);
        }
        nr += AT_ONCE;
        let round = ROUND.load(Ordering::Relaxed);
        while ROUND.load(Ordering::Relaxed) == round && !STOP.load(Ordering::Relaxed) {
            sys::yield_now();
        }
    }
    STORED.store(nr, Ordering::Relaxed);
}

/// Every page holds what it was filled with, and what was stored to it last.
fn contents(region: Region) {
    let nr = STORED.load(Ordering::Relaxed);
    for page in 0..PAGES {
        let found = region.read(page, page % 512);
        holds!(found == !(page as u64), "page {page} holds {found:#x}, not what it was filled with");
        let rounds = (nr + (PAGES - 1 - page) as u64) / PAGES as u64;
        let last = if rounds == 0 { 0 } else { (rounds - 1) * PAGES as u64 + page as u64 + 1 };
        let found = region.read(page, word_of(page));
        holds!(found == last, "page {page} holds {found}, not {last}");
    }
}
