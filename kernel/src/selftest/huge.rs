//! Huge pages in the tables that the CPU walks: what installs one, what cuts it, and threads that race for
//! one. With a policy of `never` the same accesses must find the same contents, in base pages alone.

use super::world::{HUGE_PAGES, fail, is_mapped_huge, load, page, region, store, wants_huge, with_space};
use crate::arch::spaces::{self, SpaceHandle};
use crate::arch::{Core, MACHINE, percpu, thread};
use crate::memory;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::space::{Advice, Counter, Totals};
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_kernel::core::options::Options;

const BYTES: u64 = HUGE_PAGES * PAGE_SIZE as u64;

/// A part of the test, which runs in the space.
type SubTest = fn(&Scene<'_>) -> bool;

/// The parts, by what they do.
const SUBTESTS: &[(&str, SubTest)] = &[
    ("a store", |scene| scene.a_store_installs_one()),
    ("a load", |scene| scene.a_load_maps_the_huge_zero_page()),
    ("munmap of a part", |scene| scene.munmap_cuts_one()),
    ("mprotect of a part", |scene| scene.mprotect_cuts_one()),
    ("MADV_DONTNEED", |scene| scene.dropped_contents_are_gone()),
];

/// What faults and calls do to one huge page.
pub fn whole_and_cut(options: &Options<'_>) -> bool {
    SUBTESTS.iter().all(|&(name, sub_test)| {
        let passed = with_space(options, |space| {
            let scene = Scene { space, wants: wants_huge(options), base: region(space, options, 3) };
            let passed = AtomicBool::new(false);
            let body = || passed.store(spaces::in_space(space, || sub_test(&scene)), SeqCst);
            thread::run_all(&[&body], false);
            passed.load(SeqCst)
        });
        passed || fail(format_args!("{name}, with huge pages {:?}", options.huge))
    })
}

struct Scene<'a> {
    space: &'a SpaceHandle,
    /// Whether the region is to have huge pages.
    wants: bool,
    /// Three huge pages.
    base: VirtAddr,
}

/// Counts since `before`.
fn since(before: &Totals, counter: Counter) -> u64 {
    memory::vm().totals().since(before).get(counter)
}

impl Scene<'_> {
    /// The leaf at the page is one of the CPU's huge ones, if the policy wants any, and may be written as
    /// said.
    fn is_huge(&self, n: u64, writable: bool) -> bool {
        is_mapped_huge(page(self.base, n)) == self.wants.then_some(writable)
    }

    fn count(&self, before: &Totals, counter: Counter, expected: u64) -> bool {
        let (found, expected) = (since(before, counter), if self.wants { expected } else { 0 });
        found == expected || fail(format_args!("{} is {found}, not {expected}", counter.name()))
    }

    fn holds(&self, n: u64, word: u64) -> bool {
        load(page(self.base, n)) == Ok(word) || fail(format_args!("page {n} does not hold {word}"))
    }

    /// Stores to each page of the first huge page its number and one.
    fn fill(&self) -> bool {
        (0..HUGE_PAGES).all(|n| store(page(self.base, n), n + 1).is_ok())
    }

    /// The pages of the first huge page hold what `fill` has stored, but those of `gone`, which cannot be
    /// read.
    fn is_kept(&self, gone: core::ops::Range<u64>) -> bool {
        (0..HUGE_PAGES).all(|n| match gone.contains(&n) {
            true => load(page(self.base, n)).is_err() || fail(format_args!("page {n} is still there")),
            false => self.holds(n, n + 1),
        })
    }

    fn a_store_installs_one(&self) -> bool {
        let before = memory::vm().totals();
        let stored = store(page(self.base, 5), 7).is_ok();
        let faults = since(&before, Counter::PgFault);
        let others = (0..HUGE_PAGES).step_by(37).filter(|&n| n != 5).all(|n| self.holds(n, 0));
        let again = if self.wants { since(&before, Counter::PgFault) - faults } else { 0 };
        stored
            && others
            && self.holds(5, 7)
            && faults == 1
            && (again == 0 || fail(format_args!("{again} faults in a huge page that is there")))
            && self.is_huge(300, true)
            && is_mapped_huge(page(self.base, HUGE_PAGES)).is_none()
            && self.count(&before, Counter::ThpFaultAlloc, 1)
            && self.count(&before, Counter::ThpFaultFallback, 0)
            && (!self.wants || self.space.inspect().resident().pages() == HUGE_PAGES)
    }

    fn a_load_maps_the_huge_zero_page(&self) -> bool {
        let before = memory::vm().totals();
        let zeros = (0..3).all(|nth| self.holds(nth * HUGE_PAGES + 77 * nth, 0));
        let faults = since(&before, Counter::PgFault);
        let costs_nothing = self.space.inspect().resident().pages() == 0;
        let mapped = (0..3).all(|nth| self.is_huge(nth * HUGE_PAGES, false));
        let all_zero = (0..3 * HUGE_PAGES).step_by(61).all(|n| self.holds(n, 0));
        let stored = store(page(self.base, HUGE_PAGES + 9), 3).is_ok();
        let own = self.is_huge(HUGE_PAGES, true) && self.holds(HUGE_PAGES + 9, 3);
        let others = (0..3 * HUGE_PAGES).step_by(59).filter(|&n| n != HUGE_PAGES + 9);
        zeros
            && faults == 3
            && (costs_nothing || fail(format_args!("memory that was only read is resident")))
            && mapped
            && all_zero
            && stored
            && own
            && { others }.all(|n| self.holds(n, 0))
            && self.count(&before, Counter::ThpZeroPageAlloc, 1)
            && self.count(&before, Counter::ThpFaultAlloc, 1)
    }

    fn munmap_cuts_one(&self) -> bool {
        let before = memory::vm().totals();
        let filled = self.fill() && self.is_huge(0, true);
        let cut = self.space.unmap(page(self.base, 100), 16 * PAGE_SIZE as u64).is_ok();
        filled
            && cut
            && is_mapped_huge(self.base).is_none()
            && self.is_kept(100..116)
            && self.count(&before, Counter::ThpSplitPmd, 1)
            && self.count(&before, Counter::ThpSplitPage, 1)
            && (self.space.inspect().resident().pages() == HUGE_PAGES - 16
                || fail(format_args!("resident: {:?}", self.space.inspect().resident())))
    }

    fn mprotect_cuts_one(&self) -> bool {
        let before = memory::vm().totals();
        let bytes = 10 * PAGE_SIZE as u64;
        let protect = |rights| self.space.protect(page(self.base, 10), bytes, rights).is_ok();
        let ready = self.fill() && protect(VmaFlags::READ);
        let refused = store(page(self.base, 15), 0).is_err() && self.is_kept(0..0);
        let beside = [9, 20].iter().all(|&n| store(page(self.base, n), n + 1).is_ok());
        let restored = protect(VmaFlags::READ | VmaFlags::WRITE) && store(page(self.base, 15), 16).is_ok();
        ready
            && (refused || fail(format_args!("a page was written without the right to")))
            && beside
            && restored
            && self.is_kept(0..0)
            && self.count(&before, Counter::ThpSplitPmd, 1)
    }

    fn dropped_contents_are_gone(&self) -> bool {
        let before = memory::vm().totals();
        let ready = self.fill() && self.space.advise(self.base, BYTES, Advice::DontNeed).is_ok();
        let zeros = (0..HUGE_PAGES).step_by(31).all(|n| self.holds(n, 0));
        let again = store(page(self.base, 1), 2).is_ok() && self.holds(1, 2) && self.is_huge(1, true);
        let part = self.space.advise(page(self.base, 1), PAGE_SIZE as u64, Advice::DontNeed).is_ok();
        ready && zeros && again && part && self.holds(1, 0) && self.count(&before, Counter::ThpSplitPmd, 1)
    }
}

/// A child has what its parent had, whichever of them writes then.
pub fn forked(options: &Options<'_>) -> bool {
    with_space(options, |space| {
        let base = region(space, options, 2);
        let inside = |space: &SpaceHandle, f: &(dyn Fn() -> bool + Sync)| {
            let passed = AtomicBool::new(false);
            let body = || passed.store(spaces::in_space(space, f), SeqCst);
            thread::run_all(&[&body], false);
            passed.load(SeqCst)
        };
        let holds = |n, word| load(page(base, n)) == Ok(word);
        let filled = inside(space, &|| {
            let stored = (0..HUGE_PAGES).all(|n| store(page(base, n), n).is_ok());
            stored && holds(HUGE_PAGES + 3, 0) && is_mapped_huge(base).is_some() == wants_huge(options)
        });
        let Ok(child) = space.fork().and_then(|child| memory::spaces().insert(child)) else {
            return fail(format_args!("there is no memory for a child"));
        };
        let parent = inside(space, &|| {
            // Shared as a whole; a store copies one base page.
            let is_whole = is_mapped_huge(base).is_some() == wants_huge(options);
            let is_stored = store(page(base, 4), 40).is_ok() && is_mapped_huge(base).is_none();
            is_whole && is_stored && store(page(base, HUGE_PAGES + 3), 1).is_ok()
        });
        let in_child = inside(&child, &|| {
            let kept = (0..HUGE_PAGES).all(|n| holds(n, n)) && holds(HUGE_PAGES + 3, 0);
            kept && store(page(base, 5), 50).is_ok() && holds(5, 50)
        });
        let after = inside(space, &|| holds(4, 40) && holds(5, 5) && holds(HUGE_PAGES + 3, 1));
        filled && parent && in_child && after
            || fail(format_args!("filled {filled}, parent {parent}, child {in_child}, after {after}"))
    })
}

/// Rounds of the race.
const ROUNDS: u64 = 40;

/// All CPUs store to the same huge page at the same time, each to a page of its own: one of them installs
/// it, and no store is lost. In every other round half of them load first.
pub fn raced_for(options: &Options<'_>) -> bool {
    with_space(options, |space| {
        let (nr, before) = (MACHINE.nr_cpus(), memory::vm().totals());
        let base = region(space, options, 1);
        let (arrived, wrong) = (AtomicU32::new(0), AtomicU32::new(0));
        let own = |cpu: u32| page(base, 7 * u64::from(cpu) % HUGE_PAGES);
        let racer = || {
            let (me, mut met) = (Core::id().0, 0);
            let mut meet = || {
                met += nr;
                arrived.fetch_add(1, SeqCst);
                while arrived.load(SeqCst) < met {
                    Core::relax();
                }
            };
            let must = |holds: bool| {
                wrong.fetch_add(u32::from(!holds), Relaxed);
            };
            for round in 1..=ROUNDS {
                meet();
                if round % 2 == 0 && me % 2 == 1 {
                    must(load(own(me)) == Ok(0));
                }
                must(store(own(me), round << 8 | u64::from(me)).is_ok());
                meet();
                (0..nr).for_each(|cpu| must(load(own(cpu)) == Ok(round << 8 | u64::from(cpu))));
                must(!wants_huge(options) || is_mapped_huge(base) == Some(true));
                meet();
                if me == 0 {
                    must(space.advise(base, BYTES, Advice::DontNeed).is_ok());
                }
            }
        };
        let inside = || spaces::in_space(space, racer);
        let racers: [&(dyn Fn() + Sync); percpu::MAX_CPUS] = [&inside; percpu::MAX_CPUS];
        thread::run_all(&racers[..nr as usize], true);
        let (wrong, installed) = (wrong.load(Relaxed), since(&before, Counter::ThpFaultAlloc));
        let expected = if wants_huge(options) { ROUNDS } else { 0 };
        wrong == 0 && installed == expected
            || fail(format_args!("{wrong} wrong, {installed} huge pages installed in {ROUNDS} rounds"))
    })
}
