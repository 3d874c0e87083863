//! A program on one CPU against a writer on the other, and the checks of every execution.

use super::*;
use crate::frame::Kind;
use crate::machine::Entry;
use crate::machine::testing::{TestCpu, with_leaked};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::refill_zeros;
use crate::sync::testing::{run_model, thread};
use crate::table::walk;
use crate::units::Level;
use core::cell::Cell;
use std::boxed::Box;
use std::sync::atomic::AtomicUsize;

/// Number of executions by result.
#[derive(Debug, Default)]
pub(in crate::space) struct Seen {
    pub(in crate::space) all: AtomicUsize,
    /// The page was used.
    pub(in crate::space) used: AtomicUsize,
    /// It was not mapped any more.
    pub(in crate::space) refused: AtomicUsize,
    pub(in crate::space) speculated: AtomicUsize,
    pub(in crate::space) fell_back: AtomicUsize,
    /// Speculation ended at a mapping that was not the same any more, and at a table that was detached.
    pub(in crate::space) changed: AtomicUsize,
    pub(in crate::space) detached: AtomicUsize,
}

/// The part that the first thread runs; the other part is that of the one it spawns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::space) enum First {
    Writer,
    Program,
}

/// One model.
pub(in crate::space) struct Case<F: Format> {
    pub(in crate::space) path: Path,
    /// Prepares the space. Runs on CPU 0, then on CPU 1, neither running the space.
    pub(in crate::space) before: fn(&Space<F>),
    /// How CPU 1 resolves its faults.
    pub(in crate::space) fault: fn(&Space<F>, Fault) -> Result<Outcome, FaultError>,
    /// The part of CPU 0.
    pub(in crate::space) writer: fn(&Space<F>),
    /// The page that CPU 1 touches, to write or to read.
    pub(in crate::space) page: Vpn,
    pub(in crate::space) access: Access,
    /// Which CPU's part begins. Where the fault has to come first, that spares the bound a preemption.
    pub(in crate::space) first: First,
    pub(in crate::space) preemptions: usize,
}

/// CPU 1 touches the page, and touches it again, as a program does.
pub(in crate::space) fn program<F: Format>(
    machine: &TestMachine<F>,
    space: &Space<F>,
    case: &Case<F>,
    seen: &Seen,
) {
    let running = space.activate(None);
    for _ in 0..2 {
        while let None = use_page(machine, space, case, seen) {
            let fault = Fault { addr: case.page.addr(), access: case.access };
            match (case.fault)(space, fault) {
                Ok(Outcome::FellBack(reason)) => {
                    seen.fell_back.fetch_add(1, Relaxed);
                    note_reason(reason, seen);
                }
                Ok(_) => drop(seen.speculated.fetch_add(1, Relaxed)),
                Err(_) => {
                    seen.refused.fetch_add(1, Relaxed);
                    drop(running);
                    return;
                }
            }
        }
    }
    drop(running);
}

pub(in crate::space) fn note_reason(reason: Fallback, seen: &Seen) {
    match reason {
        Fallback::VmaChanged => drop(seen.changed.fetch_add(1, Relaxed)),
        Fallback::PmdChanged => drop(seen.detached.fetch_add(1, Relaxed)),
        _ => {}
    }
}

pub(in crate::space) fn use_page<F: Format>(
    machine: &TestMachine<F>,
    space: &Space<F>,
    case: &Case<F>,
    seen: &Seen,
) -> Option<()> {
    TestCpu::take_interrupt();
    let leaf = machine.translate(case.page, case.access)?;
    seen.used.fetch_add(1, Relaxed);
    let memory = space.vm().memory();
    let kind = memory.meta(leaf.pfn).unwrap().state().kind();
    assert!(matches!(kind, Kind::User | Kind::Zero), "a frame in use is {kind:?}");
    Some(())
}

pub(in crate::space) fn explore<F: Format>(case: Case<F>) -> &'static Seen {
    let case: &'static Case<F> = Box::leak(Box::new(case));
    let seen: &'static Seen = Box::leak(Box::default());
    run_model(case.preemptions, move || {
        seen.all.fetch_add(1, Relaxed);
        with_leaked(TestMachine::<F>::of_format(96, 2), |machine| {
            with_leaked(Vm::new(machine, boot_map(machine)).unwrap(), |vm| {
                one_execution(machine, vm, case, seen)
            });
        });
    });
    std::eprintln!("{seen:?}");
    seen
}

pub(in crate::space) fn one_execution<F: Format>(
    machine: &'static TestMachine<F>,
    vm: &'static Vm<'static, TestMachine<F>>,
    case: &'static Case<F>,
    seen: &'static Seen,
) {
    let before = Cell::new(0);
    with_leaked(AddressSpace::new(vm, layout(), case.path).unwrap(), |space| {
        machine.run_as(1);
        warm(space);
        machine.run_as(0);
        before.set(vm.memory().check().unwrap().allocated);
        (case.before)(space);
        let reading = vm.rcu.read();
        if let Some(vma) = space.mappings.vmas.find(&reading, case.page) {
            assert!(vma.is_live() && vma.anon() == vma.attributes().anon);
        }
        drop(reading);
        refill_zeros();
        let touch = move || {
            machine.run_as(1);
            program(machine, space, case, seen);
        };
        let write = move || {
            machine.run_as(0);
            (case.writer)(space);
            let stays = space.inspect().is_any_mapped(case.page.addr(), PAGE);
            if !stays {
                assert_forgotten(space, case.page);
            }
            stays
        };
        let stays = if case.first == First::Writer {
            let cpu1 = thread::spawn(touch);
            let stays = write();
            cpu1.join().unwrap();
            stays
        } else {
            let cpu0 = thread::spawn(write);
            touch();
            cpu0.join().unwrap()
        };
        machine.run_as(0);
        assert!(stays || !has_leaf(space, case.page), "a leaf is left where nothing is mapped");
    });
    vm.trim();
    // What the space has was there when it was counted first.
    assert_eq!(
        vm.memory().check().unwrap().allocated,
        before.get() - OF_SPACE,
        "frames handed out before and after"
    );
}

pub(in crate::space) fn assert_forgotten<F: Format>(space: &Space<F>, page: Vpn) {
    assert!(!space.vm.machine.has_cached(1, page), "a CPU has a page cached that is gone");
}

pub(in crate::space) fn has_leaf<F: Format>(space: &Space<F>, page: Vpn) -> bool {
    let reading = space.vm.rcu.read();
    walk(&space.entries.table, page, Level::Pte, &reading).entry() != Entry::Absent
}

pub(in crate::space) fn assert_telling(seen: &Seen) {
    let (all, used, refused) = (seen.all.load(Relaxed), seen.used.load(Relaxed), seen.refused.load(Relaxed));
    assert!(used > 0, "the model must see the page used");
    assert!(refused > 0 && refused < all, "the model must see the page refused");
}
