//! Gather, shootdown and task switch, on one table with one page: all executions with a few preemptions.
//!
//! Flushing CPUs take the page away; other CPUs enter the space, use the page through the test machine's MMU,
//! and leave. When a flush has returned, no CPU has the page cached, and no CPU finds it any more.

use super::*;
use crate::machine::testing::{TestCpu, TestMachine, TwoLevels, with_leaked};
use crate::machine::{Entry, Leaf};
use crate::sync::testing::thread;
use crate::sync::testing::{Heap, run_model};
use crate::sync::{Registration, refill_zeros};
use crate::units::{Access, Level, Pfn, Rights, Vpn};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::boxed::Box;
use std::vec::Vec;

type Tests = TestMachine<TwoLevels>;

pub(super) const PAGE: Vpn = Vpn(7);

/// Two spaces on a machine; the first has a page.
pub(super) struct World {
    pub(super) machine: &'static Tests,
    pub(super) shootdown: Registration<'static, Tests, Shootdown<'static, TestCpu>>,
    pub(super) space: SpaceTlb<TestCpu>,
    other: SpaceTlb<TestCpu>,
    /// A flush of the page has returned. The host's, so that it orders nothing.
    is_gone: AtomicBool,
    seen: &'static Seen,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    all: AtomicUsize,
    used: AtomicUsize,
    missed: AtomicUsize,
    /// The most full flushes of an execution, those of switches among them.
    full_flushes: AtomicU64,
}

impl World {
    pub(super) fn root(&self) -> Pfn {
        self.machine.frames().start
    }

    pub(super) fn table(&self) -> Pfn {
        self.root().add(1)
    }

    fn other_root(&self) -> Pfn {
        self.root().add(2)
    }

    pub(super) fn set(&self, entry: Entry) {
        self.machine.set_entry(self.table(), Level::Pte, PAGE, entry);
    }

    /// Writes the tables, and touches each CPU's words.
    fn prepare(&self) {
        self.machine.set_entry(self.root(), Level::Pmd, PAGE, Entry::Table(self.table()));
        let (rights, pfn) = (Rights::READ | Rights::WRITE, self.root().add(3));
        self.set(Entry::Leaf(Leaf::new(pfn, rights).used(true)));
        for cpu in (0..self.machine.nr_cpus()).rev() {
            self.machine.run_as(cpu);
            self.enter(&self.space);
            self.shootdown.enter_lazy(&self.space);
            self.shootdown.resume(&self.space);
            self.leave(&self.space);
        }
        self.shootdown.stats();
        assert!(self.space.generation() == self.other.generation());
        refill_zeros();
    }

    pub(super) fn enter(&self, space: &SpaceTlb<TestCpu>) {
        let root = if space.id() == self.space.id() { self.root() } else { self.other_root() };
        let root = self.machine.root_table(root);
        self.shootdown.switch(self.machine, None, Some((space, root)));
    }

    pub(super) fn leave(&self, space: &SpaceTlb<TestCpu>) {
        self.shootdown.switch(self.machine, Some(space), None);
    }

    /// As a program does: interrupts come between instructions.
    pub(super) fn use_page(&self) {
        TestCpu::take_interrupt();
        match self.machine.translate(PAGE, Access::Write) {
            Some(_) => {
                assert!(!self.is_gone.load(Relaxed), "a page was used after its flush");
                self.seen.used.fetch_add(1, Relaxed);
            }
            None => drop(self.seen.missed.fetch_add(1, Relaxed)),
        }
    }

    /// Takes the page away.
    pub(super) fn take_away(&self) {
        let _pending = self.space.begin_edit();
        self.set(Entry::Absent);
        self.flush();
    }

    /// Flushes it, having seen that it is gone.
    pub(super) fn flush(&self) {
        self.shootdown.flush(self.machine, &self.space, FlushRange::of(VpnRange::new(PAGE, PAGE.add(1))));
        for cpu in 0..self.machine.nr_cpus() {
            assert!(!self.machine.has_cached(cpu, PAGE), "a CPU has a flushed page cached");
        }
        self.is_gone.store(true, Relaxed);
    }
}

/// Runs each of `cpus` on its CPU, the first on the main thread.
pub(super) fn explore(preemptions: usize, cpus: &'static [fn(&'static World)]) -> &'static Seen {
    explore_from(preemptions, |_| {}, cpus)
}

pub(super) fn enter_and_use(world: &World) {
    world.enter(&world.space);
    world.use_page();
}

/// As [`explore`], after CPU 1 has done `first`.
pub(super) fn explore_from(
    preemptions: usize,
    first: fn(&World),
    cpus: &'static [fn(&'static World)],
) -> &'static Seen {
    let seen: &'static Seen = Box::leak(Box::default());
    run_model(preemptions, move || {
        seen.all.fetch_add(1, Relaxed);
        with_leaked(Tests::of_format(4, cpus.len() as u32), |machine| {
            let shootdown = Registration::register(machine, &mut Heap).unwrap();
            let (space, other) = (SpaceTlb::new(1), SpaceTlb::new(2));
            let world = World { machine, shootdown, space, other, is_gone: AtomicBool::new(false), seen };
            with_leaked(world, |world| {
                world.prepare();
                world.machine.run_as(1);
                first(world);
                refill_zeros();

                let threads: Vec<_> =
                    (1..cpus.len()).map(|cpu| spawn(world, cpu as u32, cpus[cpu])).collect();
                world.machine.run_as(0);
                cpus[0](world);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                seen.full_flushes.fetch_max(machine.full_flushes.load(Relaxed), Relaxed);
            });
        });
    });
    std::eprintln!("{seen:?}");
    seen
}

fn spawn(world: &'static World, cpu: u32, run: fn(&'static World)) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        world.machine.run_as(cpu);
        run(world);
    })
}

pub(super) fn assert_telling(seen: &Seen) {
    let (used, missed) = (seen.used.load(Relaxed), seen.missed.load(Relaxed));
    assert!(used > 0 && missed > 0, "the model must see the page used and missed");
}

pub(super) fn take_away(world: &'static World) {
    world.take_away();
}

fn visit(world: &'static World) {
    world.enter(&world.space);
    world.use_page();
    world.use_page();
    world.leave(&world.space);
}

#[test]
fn loom_flush_against_a_cpu_that_enters_and_leaves() {
    assert_telling(explore(2, &[take_away, visit]));
}

#[test]
fn loom_flush_against_a_cpu_that_changes_spaces() {
    assert_telling(explore(
        2,
        &[take_away, |world| {
            world.enter(&world.other);
            world.shootdown.switch(
                world.machine,
                Some(&world.other),
                Some((&world.space, world.machine.root_table(world.root()))),
            );
            world.use_page();
            world.shootdown.switch(
                world.machine,
                Some(&world.space),
                Some((&world.other, world.machine.root_table(world.other_root()))),
            );
            world.leave(&world.other);
        }],
    ));
}

#[test]
fn loom_flush_by_a_cpu_that_runs_the_space_too() {
    assert_telling(explore(
        2,
        &[
            |world| {
                world.enter(&world.space);
                world.use_page();
                world.take_away();
                world.leave(&world.space);
            },
            visit,
        ],
    ));
}

#[test]
fn loom_two_cpus_that_flush_each_other() {
    fn run(world: &'static World) {
        world.enter(&world.space);
        world.use_page();
        world.take_away();
        world.leave(&world.space);
    }
    assert_telling(explore(2, &[run, run]));
}

/// Two flushes up to where they wait: the requests of both are posted before either is answered.
fn take_away_in_two_flushes(world: &'static World) {
    world.set(Entry::Absent);
    let (shootdown, space) = (&world.shootdown, &world.space);
    let range = VpnRange::new(PAGE, PAGE.add(1));
    for _ in 0..2 {
        let request = FlushRequest { generation: space.advance(), named: range };
        fence::<TestCpu>(SeqCst);
        let mut targets = CpuMask::new();
        shootdown.post(space, request, &mut targets);
        world.machine.interrupt(targets.as_mask());
    }
    wait_until::<TestCpu>(|| shootdown.has_seen(CpuId(1), space, space.generation()));
    assert!(!world.machine.has_cached(1, PAGE), "a CPU has a flushed page cached");
    world.is_gone.store(true, Relaxed);
}

#[test]
fn loom_two_flushes_at_once_overflow_a_mailbox() {
    fn stay(world: &'static World) {
        world.use_page();
        world.use_page();
        world.leave(&world.space);
    }
    let seen = explore_from(2, enter_and_use, &[take_away_in_two_flushes, stay]);
    assert_telling(seen);
    // Two CPUs entered and left in the preparation, then one; every further full flush is a mailbox that
    // overflowed.
    assert!(seen.full_flushes.load(Relaxed) > 6, "the model must see the mailbox overflow");
}

/// How [`broken_switch`] differs from [`Shootdown::switch`].
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nowhere,
    NoFence,
    LoadedBeforeEntering,
}

/// [`Shootdown::switch`] from nothing to the first space, with its steps in a wrong order.
fn broken_switch(world: &World, broken: Broken) {
    let (own, space) = (world.shootdown.cpus.get_cpu(), &world.space);
    if broken != Broken::LoadedBeforeEntering {
        own.entering.store(space.id(), Release);
    }
    *own.mailbox.lock() = Mailbox::new(space.id());
    space.cpus.insert(TestCpu::id());
    if broken != Broken::NoFence {
        fence::<TestCpu>(SeqCst);
    }
    let seen = space.generation();
    world.machine.load_root(Some(world.machine.root_table(world.root())));
    own.seen.store(seen, Release);
    own.loaded.store(space.id(), Release);
    own.entering.store(0, Release);
    world.shootdown.catch_up(world.machine, &own);
}

fn visit_broken(world: &'static World, broken: Broken) {
    broken_switch(world, broken);
    world.use_page();
    world.use_page();
    world.leave(&world.space);
}

#[test]
fn loom_the_copy_of_switch_that_is_broken_nowhere_holds() {
    assert_telling(explore(2, &[take_away, |world| visit_broken(world, Broken::Nowhere)]));
}

#[test]
#[should_panic = "flush"]
fn loom_switch_without_the_fence_fails() {
    explore(2, &[take_away, |world| visit_broken(world, Broken::NoFence)]);
}

#[test]
#[should_panic = "flush"]
fn loom_switch_that_does_not_say_that_it_enters_fails() {
    explore(3, &[take_away, |world| visit_broken(world, Broken::LoadedBeforeEntering)]);
}

#[test]
#[should_panic = "flush"]
fn loom_flush_that_does_not_ask_the_cpus_of_the_space_fails() {
    explore(
        3,
        &[
            |world| {
                world.set(Entry::Absent);
                world.space.advance();
                world.is_gone.store(true, Relaxed);
                assert!(!world.machine.has_cached(1, PAGE), "a CPU has cached what was never flushed");
            },
            visit,
        ],
    );
}
