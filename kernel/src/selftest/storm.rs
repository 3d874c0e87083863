//! A storm: more threads than CPUs, preempted and moved about, map, write, protect, drop and unmap at random,
//! and check by touching that each page holds what it must, or is not there.
//!
//! Each thread has pages of its own, whose contents it knows. A few common pages have one owner each and many
//! readers; an epoch tells the readers what must be there:
//!
//! ```text
//!   epoch     2n          2n + 1        2n + 2
//!   page    mapped ──── unmapped ────── mapped, holds 2n + 2
//!   reader  epoch, load, epoch again: the same odd number twice? then the load must have failed: no old
//!           translation is left
//! ```

use super::world::{Dice, fail, in_fresh_space, load, map, page, store, with_space};
use crate::arch::spaces::{self, SpaceHandle};
use crate::arch::thread::{self, MAX_PARTS};
use crate::arch::{MACHINE, percpu};
use crate::task::{program, sched};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use interleaf::machine::Machine;
use interleaf::space::{Advice, MapRequest, Place};
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_kernel::core::options::Options;

/// Steps of each thread.
const STEPS: u64 = 150;
/// Pages of a thread's own region.
const PAGES: u64 = 6;
/// Common pages.
const COMMON: usize = 4;
/// Pages between two common ones, so that each is a mapping of its area.
const APART: u64 = 4;

/// A common page: where it is, and what must be there.
struct Common {
    at: VirtAddr,
    /// Raised before the page goes and after it has come, by its owner. Pairs with the readers' two loads.
    epoch: AtomicU64,
}

/// What the threads of one space share.
struct Storm<'a> {
    space: &'a SpaceHandle,
    common: [Common; COMMON],
    next: AtomicU32,
    wrong: AtomicU32,
}

/// Threads of a storm: more than CPUs.
fn nr_threads() -> usize {
    2 * MACHINE.nr_cpus() as usize + 1
}

/// All threads in one space.
pub fn in_one_space(options: &Options<'_>) -> bool {
    with_space(options, |space| storm(space, nr_threads()))
}

/// As many spaces as threads, two threads in each.
pub fn in_many_spaces(options: &Options<'_>) -> bool {
    let before = program::frames_in_use();
    let wrong = AtomicU32::new(0);
    let one = || {
        let passed = in_fresh_space(options, |space| storm(space, 2));
        wrong.fetch_add(u32::from(!passed), Relaxed);
    };
    run_times(nr_threads(), &one);
    wrong.load(Relaxed) == 0 && program::is_conserved(before)
}

/// Runs `program` in `times` threads at once, on any CPU.
fn run_times(times: usize, program: &(dyn Fn() + Sync)) {
    thread::run_all(&[program; MAX_PARTS][..times], false);
}

fn storm(space: &SpaceHandle, threads: usize) -> bool {
    let common = map(space, APART * COMMON as u64);
    // Between pages that stay mapped: a hole of one page, into which no thread's own pages fit.
    let at = |n: usize| page(common, APART * n as u64 + 1);
    let storm = Storm {
        space,
        common: core::array::from_fn(|n| Common { at: at(n), epoch: AtomicU64::new(0) }),
        next: AtomicU32::new(0),
        wrong: AtomicU32::new(0),
    };
    run_times(threads, &|| {
        let me = storm.next.fetch_add(1, Relaxed);
        spaces::in_space(space, || storm.run_thread(me));
    });
    storm.wrong.load(Relaxed) == 0
}

impl Storm<'_> {
    fn must(&self, holds: bool, what: &str) {
        if !holds {
            self.wrong.fetch_add(1, Relaxed);
            fail(format_args!("{what} (thread {}, {:?})", percpu::thread().index(), percpu::id()));
        }
    }

    /// One thread's part.
    fn run_thread(&self, me: u32) {
        let mut dice = Dice::new(me.into());
        let mut area = Area { storm: self, base: map(self.space, PAGES), holds: [0; PAGES as usize] };
        for step in 1..=STEPS {
            let word = u64::from(me) << 32 | step;
            match dice.roll(8) {
                0 => area.remap(),
                1 => area.drop_contents(),
                2 => area.protect(word),
                3 | 4 => area.write(dice.roll(PAGES), word),
                5 if (me as usize) < COMMON => self.renew(me as usize),
                6 => sched::yield_now(),
                _ => self.look(&self.common[dice.roll(COMMON as u64) as usize]),
            }
            area.check(dice.roll(PAGES));
        }
        (0..PAGES).for_each(|n| area.check(n));
        area.unmap();
    }

    /// The owner unmaps a common page, checks that it is gone, and maps it again.
    fn renew(&self, n: usize) {
        let Common { at, epoch } = &self.common[n];
        let now = epoch.load(Relaxed);
        self.must(self.space.unmap(*at, PAGE_SIZE as u64).is_ok(), "a common page cannot be unmapped");
        epoch.store(now + 1, SeqCst);
        self.must(load(*at).is_err(), "a page that was unmapped can be read");
        let request =
            MapRequest { place: Place::FixedNoReplace(*at), ..MapRequest::anonymous(PAGE_SIZE as u64) };
        // Between the epochs: readers may find the page absent, zero or written.
        epoch.store(u64::MAX, SeqCst);
        self.must(self.space.map(&request).is_ok(), "a common page cannot be mapped again");
        self.must(store(*at, now + 2).is_ok(), "a common page cannot be written");
        epoch.store(now + 2, SeqCst);
    }

    /// A reader reads a common page.
    fn look(&self, Common { at, epoch }: &Common) {
        let before = epoch.load(SeqCst);
        let found = load(*at);
        if before == u64::MAX || epoch.load(SeqCst) != before {
            return;
        }
        if before % 2 == 1 {
            self.must(found.is_err(), "a CPU kept the translation of a page that was unmapped");
        } else {
            // The owner may have unmapped the page before it raised the epoch; a value that is read must be
            // right all the same.
            self.must(found.is_err() || found == Ok(before), "a common page holds something else");
        }
    }
}

/// A thread's own pages, and what they must hold.
struct Area<'a> {
    storm: &'a Storm<'a>,
    base: VirtAddr,
    holds: [u64; PAGES as usize],
}

impl Area<'_> {
    const BYTES: u64 = PAGES * PAGE_SIZE as u64;

    fn check(&self, n: u64) {
        let found = load(page(self.base, n));
        self.storm.must(found == Ok(self.holds[n as usize]), "a page does not hold what was written");
    }

    fn write(&mut self, n: u64, word: u64) {
        self.storm.must(store(page(self.base, n), word).is_ok(), "a page cannot be written");
        self.holds[n as usize] = word;
    }

    fn drop_contents(&mut self) {
        let dropped = self.storm.space.advise(self.base, Self::BYTES, Advice::DontNeed);
        self.storm.must(dropped.is_ok(), "contents cannot be dropped");
        self.holds = [0; PAGES as usize];
    }

    /// Removes the right to write from the middle, tries a store, and restores the right.
    fn protect(&mut self, word: u64) {
        let (middle, bytes) = (page(self.base, 2), 2 * PAGE_SIZE as u64);
        let readable = VmaFlags::READ;
        let protect = |flags| self.storm.space.protect(middle, bytes, flags).is_ok();
        self.storm.must(protect(readable), "rights cannot be taken");
        self.storm.must(store(page(self.base, 3), word).is_err(), "a page without the right was written");
        self.storm.must(protect(readable | VmaFlags::WRITE), "rights cannot be given back");
        self.write(3, word);
    }

    fn unmap(&self) {
        self.storm.must(self.storm.space.unmap(self.base, Self::BYTES).is_ok(), "pages cannot be unmapped");
    }

    fn remap(&mut self) {
        self.unmap();
        let gone = (0..PAGES).all(|n| load(page(self.base, n)).is_err());
        // Another thread may have mapped the addresses meanwhile; then they hold its words, never this
        // thread's.
        let ours = |n| load(page(self.base, n)).is_ok_and(|word| word != 0 && word == self.holds[n as usize]);
        self.storm.must(gone || !(0..PAGES).any(ours), "what was unmapped is still there");
        self.base = map(self.storm.space, PAGES);
        self.holds = [0; PAGES as usize];
    }
}
