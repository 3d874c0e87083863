//! A storm over huge pages: more threads than CPUs, preempted and moved about, each with two huge pages of
//! its own. They store, drop, protect, unmap and map parts and wholes at random, and fork; each knows what
//! some of its pages hold. At the end the huge pages that the tables have are those that were counted.
//!
//! ```text
//!   pages      0 ........ 511 | 512 ....... 1023          one thread's two huge pages
//!   watched    3   67 ... 451   515 ... 963               every 64th from the third on
//! ```

use super::world::{Dice, HUGE_PAGES, fail, load, page, region, store, wants_huge, with_space};
use crate::arch::spaces::{self, SpaceHandle};
use crate::arch::thread::{self, MAX_PARTS};
use crate::arch::{MACHINE, percpu};
use crate::memory;
use crate::task::sched;
use core::sync::atomic::{AtomicU32, Ordering::*};
use interleaf::machine::Machine;
use interleaf::space::{Advice, Counter, MapRequest, Place};
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf::vma::{FlagAdvice, VmaFlags};
use interleaf_kernel::core::options::Options;

/// Steps of each thread.
const STEPS: u64 = 120;
/// Pages of a thread's region.
const PAGES: u64 = 2 * HUGE_PAGES;
/// Distance of pages whose contents are known, and the first of them.
const APART: u64 = 64;
const FIRST: u64 = 3;
/// Number of them.
const WATCHED: usize = (PAGES / APART) as usize;

/// More threads than CPUs in one space; afterwards huge pages are recounted.
pub fn in_one_space(options: &Options<'_>) -> bool {
    with_space(options, |space| {
        let before = memory::vm().totals();
        let nr = MAX_PARTS.min(2 * MACHINE.nr_cpus() as usize + 1);
        let storm =
            Storm { space, options, nr: nr as u32, ready: AtomicU32::new(0), wrong: AtomicU32::new(0) };
        let body = || spaces::in_space(space, || storm.run_thread());
        let body: &(dyn Fn() + Sync) = &body;
        thread::run_all(&[body; MAX_PARTS][..nr], false);
        let counted = memory::vm().totals().since(&before);
        let (there, known) = (space.inspect().resident(), counted.get(Counter::NrAnonTransparentHugepages));
        let [installed, lacking, split] =
            [Counter::ThpFaultAlloc, Counter::ThpFaultFallback, Counter::ThpSplitPmd].map(|c| counted.get(c));
        crate::println!(
            "{nr} threads: {installed} huge pages installed, {split} split, {lacking} lacking, {} left",
            there.huge_pages
        );
        // Forks split the last huge page of threads that have ended, but for the thread that ends last.
        let is_right = there.huge_pages == known && (known + lacking > 0) == wants_huge(options);
        storm.wrong.load(Relaxed) == 0
            && (is_right || fail(format_args!("{known} huge pages are counted, the tables have {there:?}")))
    })
}

struct Storm<'a> {
    space: &'a SpaceHandle,
    options: &'a Options<'a>,
    /// Threads, and those of them that have a region. Relaxed: nothing hangs on the order.
    nr: u32,
    ready: AtomicU32,
    wrong: AtomicU32,
}

impl Storm<'_> {
    fn must(&self, holds: bool, what: &str) {
        if !holds {
            self.wrong.fetch_add(1, Relaxed);
            fail(format_args!("{what} (thread {}, {:?})", percpu::thread().index(), percpu::id()));
        }
    }

    fn run_thread(&self) {
        let base = region(self.space, self.options, 2);
        let me = self.ready.fetch_add(1, Relaxed);
        let mut dice = Dice::new(u64::from(me) + 1000);
        // A region that is mapped later could lie where another thread has just unmapped its own.
        while self.ready.load(Relaxed) < self.nr {
            sched::yield_now();
        }
        let mut area = Area { storm: self, base, holds: [0; WATCHED] };
        for step in 1..=STEPS {
            let word = u64::from(me) << 32 | step;
            match dice.roll(10) {
                0 => area.drop_contents(0, PAGES),
                1 => area.drop_contents(dice.roll(PAGES - 9), 9),
                2 => area.remap(dice.roll(PAGES - 40), 40),
                // Its table goes: only now may there be a huge page again.
                3 | 7 => area.remap(HUGE_PAGES * dice.roll(2), HUGE_PAGES),
                4 => area.protect(&mut dice, word),
                5 if dice.roll(4) == 0 => area.fork(),
                6 => sched::yield_now(),
                _ => area.write(dice.roll(WATCHED as u64) as usize, word),
            }
            area.check(dice.roll(WATCHED as u64) as usize);
        }
        (0..WATCHED).for_each(|n| area.check(n));
        // One huge page is to be left, and recounted.
        area.remap(0, PAGES);
        area.write(1, u64::from(me));
        (0..WATCHED).for_each(|n| area.check(n));
    }
}

/// A thread's own pages, and what the watched ones must hold.
struct Area<'a> {
    storm: &'a Storm<'a>,
    base: VirtAddr,
    holds: [u64; WATCHED],
}

/// The page of a watched one.
fn watched(n: usize) -> u64 {
    FIRST + APART * n as u64
}

impl Area<'_> {
    fn at(&self, n: usize) -> VirtAddr {
        page(self.base, watched(n))
    }

    fn check(&self, n: usize) {
        let found = load(self.at(n));
        self.storm.must(found == Ok(self.holds[n]), "a page does not hold what was written");
    }

    fn write(&mut self, n: usize, word: u64) {
        self.storm.must(store(self.at(n), word).is_ok(), "a page cannot be written");
        self.holds[n] = word;
    }

    /// Pages of the range are zero from now on.
    fn forget(&mut self, first: u64, pages: u64) {
        let inside = |n: &usize| (first..first + pages).contains(&watched(*n));
        (0..WATCHED).filter(inside).for_each(|n| self.holds[n] = 0);
    }

    fn drop_contents(&mut self, first: u64, pages: u64) {
        let (at, bytes) = (page(self.base, first), pages * PAGE_SIZE as u64);
        let dropped = self.storm.space.advise(at, bytes, Advice::DontNeed);
        self.storm.must(dropped.is_ok(), "contents cannot be dropped");
        self.forget(first, pages);
    }

    /// Unmaps pages, finds them gone, and maps them again: all regions are mapped, so the hole stays one.
    fn remap(&mut self, first: u64, pages: u64) {
        let Storm { space, options, .. } = self.storm;
        let (at, bytes) = (page(self.base, first), pages * PAGE_SIZE as u64);
        self.storm.must(space.unmap(at, bytes).is_ok(), "pages cannot be unmapped");
        let gone = [0, pages - 1].iter().all(|&n| load(page(at, n)).is_err());
        self.storm.must(gone, "what was unmapped is still there");
        let request = MapRequest { place: Place::FixedNoReplace(at), ..MapRequest::anonymous(bytes) };
        let mapped = space.map(&request).is_ok();
        let advised =
            !wants_huge(options) || { space.advise(at, bytes, Advice::Flag(FlagAdvice::HugePage)).is_ok() };
        self.storm.must(mapped && advised, "pages cannot be mapped again");
        self.forget(first, pages);
    }

    /// Removes the right to write from some pages, tries a store, and restores the right.
    fn protect(&mut self, dice: &mut Dice, word: u64) {
        let n = dice.roll(WATCHED as u64 - 1) as usize;
        let (at, bytes) = (self.at(n), APART * PAGE_SIZE as u64);
        let protect = |flags| self.storm.space.protect(at, bytes, flags).is_ok();
        self.storm.must(protect(VmaFlags::READ), "rights cannot be taken");
        self.storm.must(store(at, word).is_err(), "a page without the right was written");
        self.check(n);
        self.storm.must(protect(VmaFlags::READ | VmaFlags::WRITE), "rights cannot be given back");
        self.write(n, word);
    }

    /// A child of the moment has what this thread's pages hold, whatever other threads do to theirs.
    fn fork(&self) {
        let Ok(child) = self.storm.space.fork() else {
            return self.storm.must(false, "there is no memory for a child");
        };
        for n in 0..WATCHED {
            let mut bytes = [0; 8];
            let copied = child.copy_from(self.at(n), &mut bytes);
            let found = copied.is_ok() && u64::from_le_bytes(bytes) == self.holds[n];
            self.storm.must(found, "a child has something else");
        }
    }
}
