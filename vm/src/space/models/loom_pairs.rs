//! Two CPUs that run one space, the real code on the smallest tree: all executions with two preemptions.
//!
//! A call on CPU 0 takes a page, its frame or a right away while CPU 1 stores, or CPU 1 changes what CPU 0
//! reads. When the call, or the fault, has returned, no CPU has a translation cached that is wrong from then
//! on; a frame in use is user memory; at the end every frame is accounted for.

use super::world::*;
use crate::machine::testing::{TestCpu, TestMachine, TwoLevels, with_leaked};
use crate::machine::{Entry, Leaf};
use crate::space::*;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::refill_zeros;
use crate::sync::testing::run_model;
use crate::sync::testing::thread;
use crate::table::walk;
use crate::units::{Access, Level, Rights, Vpn};
use crate::vma::{HugePolicy, HugeSizes, VmaFlags};
use core::cell::Cell;
use std::boxed::Box;
use std::sync::atomic::AtomicUsize;

pub(super) type Tests = TestMachine<TwoLevels>;
pub(super) type TestSpace = Space<TwoLevels>;
/// What a CPU does, and whether it found the page there.
pub(super) type Program = fn(&'static Tests, &'static TestSpace) -> bool;

/// One model.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    /// Prepares the space. Runs on CPU 0, which does not run the space.
    pub(super) before: fn(&TestSpace),
    /// The programs of both CPUs.
    pub(super) cpus: [Program; 2],
    /// Looks at the space when both CPUs have left it.
    pub(super) after: fn(&TestSpace),
}

/// Returns the number of executions in which CPU 1 missed the page, and in which it found it.
pub(super) fn explore_pair(pair: Pair) -> [usize; 2] {
    explore_pair_on(pair, 96, HugePolicy::Never, 2)
}

/// As [`explore_pair`], on a machine of `frames` frames, with this policy, and with so many preemptions.
pub(super) fn explore_pair_on(pair: Pair, frames: u64, policy: HugePolicy, preemptions: usize) -> [usize; 2] {
    explore_pair_with(pair, frames, (policy, HugeSizes::NEVER), preemptions)
}

/// As [`explore_pair_on`], with blocks of these sizes.
pub(super) fn explore_pair_with(
    pair: Pair,
    frames: u64,
    (policy, sizes): (HugePolicy, HugeSizes),
    preemptions: usize,
) -> [usize; 2] {
    let options = move || VmOptions { huge_pages: policy, huge_sizes: sizes, ..VmOptions::default() };
    explore_pair_set_up(pair, frames, preemptions, options)
}

/// As [`explore_pair_on`], on a system with these options.
pub(super) fn explore_pair_set_up(
    pair: Pair,
    frames: u64,
    preemptions: usize,
    options: impl Fn() -> VmOptions<'static, Tests> + Send + Sync + 'static,
) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(preemptions, move || {
        with_leaked(Tests::of_format(frames, 2), |machine| {
            let memory = boot_map(machine).claim(machine).unwrap();
            with_leaked(Vm::start(memory, options()).unwrap(), |vm| {
                let before = Cell::new(0);
                with_leaked(AddressSpace::new(vm, layout(), Path::Speculative).unwrap(), |space| {
                    let found = one_execution(machine, space, pair, &before);
                    seen[usize::from(found)].fetch_add(1, Relaxed);
                });
                vm.trim();
                // What the space has was there when it was counted first.
                let after = vm.memory().check().unwrap().allocated;
                assert_eq!(after, before.get() - OF_SPACE, "frames handed out before and after");
            });
        });
    });
    seen.each_ref().map(|count| count.load(Relaxed))
}

fn one_execution(
    machine: &'static Tests,
    space: &'static TestSpace,
    pair: Pair,
    allocated: &Cell<u64>,
) -> bool {
    for cpu in [1, 0] {
        machine.run_as(cpu);
        warm(space);
    }
    // Counted, and not recounted: each word that is looked at before there are threads is one of the model's.
    allocated.set(space.vm().memory().stats().allocated());
    (pair.before)(space);
    // Checkers look at what a CPU has cached: a word that is a step of the model, so it must be there before.
    for cpu in [0, 1] {
        machine.cached(cpu, START);
    }
    refill_zeros();
    let run = move |cpu: usize| {
        let running = space.activate(None);
        let found = pair.cpus[cpu](machine, space);
        drop(running);
        found
    };
    let cpu1 = thread::spawn(move || {
        machine.run_as(1);
        run(1)
    });
    run(0);
    let found = cpu1.join().unwrap();
    (pair.after)(space);
    found
}

pub(super) fn assert_both(seen: [usize; 2]) {
    assert!(seen.iter().all(|&count| count > 0), "the model must see the page found and missed: {seen:?}");
}

/// Stores to the page as a program does, with the faults that this takes. False where one is refused.
pub(super) fn store(machine: &Tests, space: &TestSpace, page: Vpn) -> bool {
    loop {
        TestCpu::take_interrupt();
        if let Some(leaf) = machine.translate(page, Access::Write) {
            let kind = space.vm.memory().meta(leaf.pfn).unwrap().state().kind();
            assert!(kind.is_counted(), "a frame in use: {kind:?}");
            return true;
        }
        if space.fault(Fault { addr: page.addr(), access: Access::Write }).is_err() {
            return false;
        }
    }
}

fn store_to_start(machine: &'static Tests, space: &'static TestSpace) -> bool {
    store(machine, space, START)
}

fn store_twice(machine: &'static Tests, space: &'static TestSpace) -> bool {
    store(machine, space, START) && store(machine, space, START)
}

/// The mapping, in a table that another mapping keeps.
pub(super) fn mapped(space: &TestSpace) {
    map(space, START, PAGES);
    map(space, START.add(8), 1);
    touch(space, START.add(8));
}

/// Its first page was written.
pub(super) fn written(space: &TestSpace) {
    mapped(space);
    touch(space, START);
}

/// Its first page was read.
fn read(space: &TestSpace) {
    mapped(space);
    space.fault(Fault { addr: START.addr(), access: Access::Read }).unwrap();
}

/// Asserts that no CPU has a translation of the first page cached that `is_wrong`.
pub(super) fn assert_none_cached(machine: &Tests, is_wrong: impl Fn(&Leaf) -> bool) {
    for cpu in 0..2 {
        assert!(
            !machine.cached(cpu, START).is_some_and(|leaf| is_wrong(&leaf)),
            "a CPU has a translation cached that is wrong by now"
        );
    }
}

pub(super) fn leaf(space: &TestSpace) -> Option<Leaf> {
    let reading = space.vm.rcu.read();
    match walk(&space.entries.table, START, Level::Pte, &reading).entry() {
        Entry::Leaf(leaf) => Some(leaf),
        _ => None,
    }
}

#[test]
fn loom_a_store_against_mprotect() {
    let protect: Program = |machine, space| {
        space.protect(START.addr(), PAGES * PAGE, VmaFlags::READ).unwrap();
        assert_none_cached(machine, |leaf| leaf.rights.contains(Rights::WRITE));
        true
    };
    let after = |space: &TestSpace| {
        assert!(!leaf(space).is_some_and(|leaf| leaf.rights.contains(Rights::WRITE)), "left writable");
    };
    assert_both(explore_pair(Pair { before: written, cpus: [protect, store_twice], after }));
}

#[test]
fn loom_a_store_against_dontneed() {
    let drop_page: Program = |machine, space| {
        let old = leaf(space).map(|leaf| leaf.pfn);
        space.advise(START.addr(), PAGE, Advice::DontNeed).unwrap();
        // CPU 1 may have a new frame by now, from its own cache: not the old one.
        assert_none_cached(machine, |leaf| Some(leaf.pfn) == old);
        true
    };
    let seen = explore_pair(Pair { before: written, cpus: [drop_page, store_twice], after: |_| () });
    assert_eq!(seen[0], 0, "the page stays mapped");
}

/// The second must not return before the flush of the first, which has cleared the entry.
#[test]
fn loom_two_dontneed_of_one_page() {
    let use_and_drop: Program = |machine, space| {
        let found = machine.translate(START, Access::Write).is_some();
        space.advise(START.addr(), PAGE, Advice::DontNeed).unwrap();
        assert_none_cached(machine, |_| true);
        found
    };
    assert_both(explore_pair(Pair { before: written, cpus: [use_and_drop; 2], after: |_| () }));
}

#[test]
fn loom_a_store_against_a_mapping_put_over_it() {
    let map_over: Program = |_, space| {
        map(space, START, PAGES);
        true
    };
    let seen = explore_pair(Pair { before: written, cpus: [map_over, store_twice], after: |_| () });
    assert_eq!(seen[0], 0, "the page is mapped before and after");
}

/// The flush of the zero page is waited for under the table's lock.
#[test]
fn loom_a_store_to_the_zero_page_against_a_reader() {
    let read_twice: Program = |machine, _| {
        machine.translate(START, Access::Read);
        TestCpu::take_interrupt();
        machine.translate(START, Access::Read);
        true
    };
    let store_and_look: Program = |machine, space| {
        let found = machine.cached(0, START).is_some();
        assert!(store(machine, space, START));
        let zero = space.vm.memory().zero_frame();
        assert_none_cached(machine, |leaf| leaf.pfn == zero);
        found
    };
    assert_both(explore_pair(Pair { before: read, cpus: [read_twice, store_and_look], after: |_| () }));
}

#[test]
fn loom_a_store_to_the_zero_page_against_unmap() {
    let unmap_all: Program = |machine, space| {
        unmap(space, START, PAGES);
        assert_none_cached(machine, |_| true);
        true
    };
    let after =
        |space: &TestSpace| assert!(!has_leaf(space, START), "a leaf is left where nothing is mapped");
    assert_both(explore_pair(Pair { before: read, cpus: [unmap_all, store_twice], after }));
}

#[test]
fn loom_two_faults_link_one_table() {
    let untouched = |space: &TestSpace| map(space, START, PAGES);
    let after = |space: &TestSpace| assert!(leaf(space).is_some(), "a page that was stored to");
    let seen = explore_pair(Pair { before: untouched, cpus: [store_to_start; 2], after });
    assert_eq!(seen[0], 0, "the page is mapped");
}
