//! A hit is never made of the words of two, also where a handler of interrupts looks up.

use super::*;
use crate::machine::{AccessKind, Context, Irq};
use crate::sync::Rcu;
use crate::sync::testing::Heap;
use crate::units::CpuId;
use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use std::boxed::Box;

/// One CPU of each thread, with real interrupts: one comes right before an access that [`interrupted_at`]
/// chooses.
enum Interrupted {}

std::thread_local! {
    static CONTEXT: Context = const { Context::new() };
    /// Number of accesses up to the interrupt; 0: none comes.
    static COUNTDOWN: Cell<u32> = const { Cell::new(0) };
    static HANDLER: Cell<Option<&'static dyn Fn()>> = const { Cell::new(None) };
}

// SAFETY: each thread is the one CPU of a machine whose data no other thread has. 3: thread-local. 4 to 7:
// no other CPU interrupts, and none waits or sleeps; `access` calls what an interrupt may call there.
unsafe impl Cpu for Interrupted {
    type CpuWords = [u64; 1];

    const OBSERVED: bool = true;

    fn access(_addr: usize, _len: usize, _kind: AccessKind) {
        let left = COUNTDOWN.get();
        COUNTDOWN.set(left.saturating_sub(1));
        if left == 1
            && let Some(handler) = HANDLER.get()
        {
            handler();
        }
    }
    fn id() -> CpuId {
        CpuId(0)
    }
    fn with_context<R>(f: impl FnOnce(&Context) -> R) -> R {
        CONTEXT.with(f)
    }
    fn relax() {}
    fn sleep(_word: &AtomicU32, _expected: u32) {}
    fn wake(_word: &AtomicU32, _count: u32) {}
    fn interrupts_off() -> Irq {
        Irq(0)
    }
    unsafe fn interrupts_restore(_state: Irq) {}
    fn preempt_off() {}
    unsafe fn preempt_on() {}
    fn now_ns() -> u64 {
        0
    }
}

/// An RCU and two structures that are read under it.
struct World {
    rcu: Rcu<'static, Interrupted>,
    sources: [HitSource<Interrupted>; 2],
}

/// A lookup: of which structure, and of which key.
type Lookup = (usize, u64);

/// The second word of a hit.
fn value((source, key): Lookup) -> u64 {
    1000 * (source as u64 + 1) + key
}

impl World {
    fn new() -> &'static Self {
        let rcu = Rcu::carve(&mut Heap, 1).unwrap();
        let world = Self { rcu, sources: [HitSource::new(), HitSource::new()] };
        // One version is ahead of the other.
        world.sources[1].invalidate();
        Box::leak(Box::new(world))
    }

    /// Looks up by way of the last hit, and caches what is found. True for a hit.
    fn look(&self, lookup: Lookup) -> bool {
        let (source, key) = lookup;
        let section = self.rcu.read();
        let version = self.sources[source].version();
        let table = LastHit::get(&section, LastHits::table, version);
        let item = LastHit::get(&section, LastHits::item, version);
        if let Some([cached, word]) = table {
            assert_eq!(word, value((source, cached)), "two hits are mixed");
        }
        if let Some([word]) = item {
            assert_eq!(word / 1000, source as u64 + 1, "a hit of another structure");
        }
        if table.is_some_and(|[cached, _]| cached == key) {
            return true;
        }
        // SAFETY: the words name nothing.
        unsafe {
            LastHit::set(&section, LastHits::table, version, [key, value(lookup)]);
            LastHit::set(&section, LastHits::item, version, [value(lookup)]);
        }
        false
    }
}

/// Calls `f` with an interrupt right before access `n`. False if there are fewer accesses.
fn interrupted_at(n: u32, handler: &'static dyn Fn(), f: impl FnOnce()) -> bool {
    HANDLER.set(Some(handler));
    COUNTDOWN.set(n);
    f();
    HANDLER.set(None);
    COUNTDOWN.replace(0) == 0
}

/// Each lookup after each other one, interrupted before each of its accesses by a handler that does two.
#[test]
fn a_handler_that_looks_up_mixes_no_hits() {
    let lookups: [Lookup; 4] = [(0, 1), (0, 2), (1, 1), (1, 2)];
    let mut interrupts = 0;
    for (before, interrupted) in lookups.iter().flat_map(|one| lookups.map(|other| (*one, other))) {
        for (first, last) in lookups.iter().flat_map(|one| lookups.map(|other| (*one, other))) {
            for n in 1.. {
                let world = World::new();
                world.look(before);
                let handler: &'static dyn Fn() = Box::leak(Box::new(move || {
                    world.look(first);
                    world.look(last);
                }));
                if !interrupted_at(n, handler, || _ = world.look(interrupted)) {
                    break;
                }
                interrupts += 1;
                lookups.iter().for_each(|&lookup| _ = world.look(lookup));
            }
        }
    }
    assert!(interrupts > 2000, "the handler must have run: {interrupts}");
}

#[test]
fn an_inner_section_neither_reads_nor_changes_what_the_outer_one_cached() {
    let world = World::new();
    let outer = world.rcu.read();
    assert!(!world.look((0, 1)) && !world.look((0, 1)), "an inner section has no last hit");
    drop(outer);
    assert!(!world.look((0, 1)) && world.look((0, 1)), "the outermost one has");
}
