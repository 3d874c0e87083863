//! All CPUs in one space: map, write, protect, drop, unmap and check contents, with more threads than CPUs.
//!
//! `storm [THREADS] [ROUNDS] [SEED]`. Each thread owns a few regions, knows what each page must hold, and
//! picks its next step at random. One region is common: each thread owns a word of every page there, and any
//! thread may set the pages' rights anew. At the end every page is checked once more.
#![cfg_attr(metal, no_std, no_main)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use interleaf_programs::dice::{Dice, mix};
use interleaf_programs::say::granted;
use interleaf_programs::sys::{self, Args, Region, Rights, Shared, THREADS};
use interleaf_programs::{GOOD, holds, program, say};

program!(begin);

/// Regions of a thread, and pages of each.
const REGIONS: usize = 4;
const PAGES: usize = 24;
/// Pages of the region in which every thread owns a word.
const COMMON: usize = 16;

static ALL: Shared = Shared::new();
static ROUNDS: AtomicU64 = AtomicU64::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
/// Steps done by all threads.
static STEPS: AtomicU64 = AtomicU64::new(0);

fn begin(args: Args) -> u8 {
    let threads = args.number(1, 2 * sys::cpus() + 1).clamp(1, THREADS);
    ROUNDS.store(args.number(2, 400) as u64, Relaxed);
    SEED.store(args.number(3, 1) as u64, Relaxed);
    ALL.set(granted("mmap", Region::map(COMMON, Rights::WRITE)));
    let started: [_; THREADS] =
        core::array::from_fn(|index| (index < threads).then(|| granted("clone", sys::spawn(run, index))));
    started.into_iter().flatten().for_each(sys::Thread::join);
    for page in 0..COMMON {
        for index in 0..threads {
            holds!(
                ALL.get().read(page, index) == mix(index as u64),
                "page {page} of all lost the word of {index}"
            );
        }
    }
    say!("storm: {threads} threads, {} steps, every page held what it must", STEPS.load(Relaxed));
    GOOD
}

/// One thread's regions, and what their pages must hold: 0 for a page that was never written or was dropped.
struct Area {
    thread: usize,
    regions: [Region; REGIONS],
    holds: [[u64; PAGES]; REGIONS],
    writable: [bool; REGIONS],
    dice: Dice,
}

fn run(index: usize) {
    let seed = mix(SEED.load(Relaxed)) ^ index as u64;
    let mut area = Area {
        thread: index,
        regions: [(); REGIONS].map(|()| granted("mmap", Region::map(PAGES, Rights::WRITE))),
        holds: [[0; PAGES]; REGIONS],
        writable: [true; REGIONS],
        dice: Dice::new(seed),
    };
    let rounds = ROUNDS.load(Relaxed);
    for round in 0..rounds {
        area.step(round);
        area.common(round);
    }
    (0..REGIONS).for_each(|region| area.check(region, 0, PAGES));
    area.regions.iter().for_each(|region| granted("munmap", region.unmap()));
    STEPS.fetch_add(rounds, Relaxed);
}

impl Area {
    /// A random step on a run of pages of one region.
    fn step(&mut self, round: u64) {
        let region = self.dice.below(REGIONS);
        let first = self.dice.below(PAGES);
        let count = 1 + self.dice.below(PAGES - first);
        let run = self.regions[region].part(first, count);
        match self.dice.below(8) {
            0 | 1 => self.write(region, first, count, round),
            2 => self.protect(region),
            3 => {
                granted("madvise", run.dont_need());
                self.holds[region][first..first + count].fill(0);
            }
            4 => self.replace(region, first, count),
            5 => self.renew(region),
            6 => sys::yield_now(),
            _ => self.check(region, first, count),
        }
    }

    fn write(&mut self, region: usize, first: usize, count: usize, round: u64) {
        if !self.writable[region] {
            return self.check(region, first, count);
        }
        for page in first..first + count {
            let value = mix((self.thread as u64) << 48 ^ (page as u64) << 40 ^ round) | 1;
            self.regions[region].write(page, page, value);
            self.regions[region].write(page, 511 - page, !value);
            self.holds[region][page] = value;
        }
    }

    /// Removes the right to write from a whole region, or restores it.
    fn protect(&mut self, region: usize) {
        let rights = if self.writable[region] { Rights::READ } else { Rights::WRITE };
        granted("mprotect", self.regions[region].protect(rights));
        self.writable[region] = !self.writable[region];
        self.check(region, 0, PAGES);
    }

    /// Unmaps some pages and maps new ones there, in one call or in two.
    fn replace(&mut self, region: usize, first: usize, count: usize) {
        let run = self.regions[region].part(first, count);
        let rights = if self.writable[region] { Rights::WRITE } else { Rights::READ };
        granted("mmap", run.replace(rights));
        self.holds[region][first..first + count].fill(0);
        self.check(region, 0, PAGES);
    }

    /// Unmaps a whole region, and maps another wherever there is room.
    fn renew(&mut self, region: usize) {
        self.check(region, 0, PAGES);
        granted("munmap", self.regions[region].unmap());
        self.regions[region] = granted("mmap", Region::map(PAGES, Rights::WRITE));
        self.holds[region] = [0; PAGES];
        self.writable[region] = true;
        self.check(region, 0, PAGES);
    }

    fn check(&self, region: usize, first: usize, count: usize) {
        for page in first..first + count {
            let (expected, pages) = (self.holds[region][page], &self.regions[region]);
            let other = if expected == 0 { 0 } else { !expected };
            let (value, last) = (pages.read(page, page), pages.read(page, 511 - page));
            let thread = self.thread;
            holds!(
                value == expected && last == other,
                "thread {thread}, region {region}, page {page}: {value:#x}, {last:#x} \
                 instead of {expected:#x}, {other:#x}"
            );
        }
    }

    /// The common pages: this thread's word in each is written repeatedly with the same value. Sometimes
    /// their rights are set anew, which changes none, but makes the kernel check every CPU's translations.
    fn common(&mut self, round: u64) {
        let page = self.dice.below(COMMON);
        ALL.get().write(page, self.thread, mix(self.thread as u64));
        holds!(
            ALL.get().read(page, self.thread) == mix(self.thread as u64),
            "page {page} of all, round {round}"
        );
        if round.is_multiple_of(64) {
            granted("mprotect", ALL.get().protect(Rights::WRITE));
            (0..COMMON).for_each(|page| ALL.get().write(page, self.thread, mix(self.thread as u64)));
        }
    }
}
