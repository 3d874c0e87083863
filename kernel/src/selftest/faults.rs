//! Page faults of the kernel's own accesses to programs' memory, and which CPUs a flush interrupts.

use super::world::{fail, load, map, page, store, with_space};
use crate::arch::cpu::PreemptOff;
use crate::arch::spaces::{self, SpaceHandle};
use crate::arch::thread;
use crate::arch::{Core, MACHINE, percpu, user};
use crate::memory;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use interleaf::machine::{Cpu, Machine};
use interleaf::space::{Counter, Fallback, Path};
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf::vma::VmaFlags;
use interleaf_kernel::core::options::Options;

/// Returns `holds`; prints `what` where it is false.
fn must(holds: bool, what: &str) -> bool {
    holds || fail(format_args!("{what}"))
}

/// Accesses that are resolved, and accesses that must end as errors.
pub fn of_the_kernel(options: &Options<'_>) -> bool {
    with_space(options, |space| {
        let passed = AtomicBool::new(false);
        let body = || passed.store(spaces::in_space(space, || touch_everything(space)), SeqCst);
        thread::run_all(&[&body], false);
        passed.load(SeqCst)
    })
}

fn touch_everything(space: &SpaceHandle) -> bool {
    let base = map(space, 4);
    let resolved = must(load(base) == Ok(0), "memory that was never written does not read zero")
        && must(store(page(base, 1), 7).is_ok(), "memory cannot be written")
        && must(load(page(base, 1)) == Ok(7), "memory does not hold what was written")
        && must(store(VirtAddr(page(base, 3).0 - 4), 9).is_ok(), "a word across two pages cannot be written");
    let readable = space.protect(base, PAGE_SIZE as u64, VmaFlags::READ).is_ok();
    let refused = must(readable && store(base, 1).is_err(), "a page was written without the right to")
        && must(load(VirtAddr(0)).is_err(), "address 0 can be read")
        && must(load(VirtAddr(user::USER_END)).is_err(), "the kernel's memory was read as a program's")
        && must(load(VirtAddr(u64::MAX - 3)).is_err(), "addresses wrap around");
    let mut bytes = [0; 16];
    let half = user::read(VirtAddr(page(base, 4).0 - 8), &mut bytes);
    let end = must(half.is_err(), "a read beyond the end of a mapping succeeded");
    let stay = PreemptOff::new();
    let pinned = must(user::try_load(page(base, 2)).is_some(), "a present page cannot be looked at")
        && must(user::try_load(VirtAddr(0)).is_none(), "a look at nothing found something");
    drop(stay);
    let clean = must(percpu::thread().context().held() == 0, "an error left a lock held");
    resolved && refused && end && pinned && clean
}

/// A fault that gives up speculating is heard, with its reason and its address.
pub fn are_heard(options: &Options<'_>) -> bool {
    let speculates = options.path != Path::Locked;
    with_space(options, |space| {
        let base = map(space, 1);
        let (hole, before) = (VirtAddr(page(base, 1).0 + 0x24), MACHINE.events().noted());
        let passed = AtomicBool::new(false);
        let body = || passed.store(spaces::in_space(space, || load(hole).is_err()), SeqCst);
        thread::run_all(&[&body], false);
        let heard = MACHINE.events().noted() - before;
        let last = MACHINE.events().last().next();
        must(passed.load(SeqCst), "a hole can be read")
            && must((heard > 0) == speculates, "events are those of faults that speculate")
            && must(!speculates || last == Some((Fallback::VmaMissing, hole.0)), "another event was heard")
    })
}

/// Pages that are mapped, touched and unmapped.
const ROUNDS: u64 = 40;

/// A flush interrupts the CPUs that run the space, and no other; none where it runs nowhere else.
pub fn interrupt_only_who_runs_the_space(options: &Options<'_>) -> bool {
    let alone =
        with_space(options, |space| must(interrupts_of(space, 1) == 0, "a lone CPU interrupted others"));
    if MACHINE.nr_cpus() < 3 {
        return alone;
    }
    let pair = with_space(options, |space| {
        let sent = interrupts_of(space, 2);
        crate::println!("two CPUs of {} in a space: {ROUNDS} unmaps, {sent} interrupts", MACHINE.nr_cpus());
        must(0 < sent && sent <= ROUNDS, "a flush interrupted a CPU that does not run the space")
    });
    alone && pair
}

/// Interrupts that CPU 0 sends by unmapping, while the first `inside` CPUs run the space and all others run
/// something else.
fn interrupts_of(space: &SpaceHandle, inside: u32) -> u64 {
    let (ready, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let sent = core::sync::atomic::AtomicU64::new(0);
    let wait = || {
        ready.fetch_add(1, SeqCst);
        while !over.load(SeqCst) {
            Core::relax();
        }
    };
    let main = || {
        while ready.load(SeqCst) < MACHINE.nr_cpus() - 1 {
            Core::relax();
        }
        spaces::in_space(space, || {
            let before = memory::vm().shootdown_stats().sent;
            let flushes = memory::vm().totals().get(Counter::TlbFlush);
            (0..ROUNDS).for_each(|_| touch_and_unmap(space));
            sent.store(memory::vm().shootdown_stats().sent - before, SeqCst);
            debug_assert!(memory::vm().totals().get(Counter::TlbFlush) > flushes);
        });
        over.store(true, SeqCst);
    };
    let inhabitant = || spaces::in_space(space, wait);
    let mut programs: [&(dyn Fn() + Sync); percpu::MAX_CPUS] = [&wait; percpu::MAX_CPUS];
    programs[0] = &main;
    programs[1..inside as usize].fill(&inhabitant);
    thread::run_all(&programs[..MACHINE.nr_cpus() as usize], true);
    sent.load(SeqCst)
}

fn touch_and_unmap(space: &SpaceHandle) {
    let base = map(space, 1);
    let touched = store(base, 1).is_ok() && space.unmap(base, PAGE_SIZE as u64).is_ok();
    assert!(touched && load(base).is_err(), "a page came or went otherwise than asked");
}
