//! Two programs that run one space.

use super::*;
use crate::machine::Leaf;
use crate::machine::testing::TestCpu;
use crate::sync::refill_zeros;
use crate::sync::testing::thread;
use crate::vma::{HugePolicy, MthpPolicies};

/// What a CPU does, and whether it found the page there.
pub(in crate::space) type Program = fn(&'static Tests, &'static TestSpace) -> bool;

/// One model.
#[derive(Clone, Copy)]
pub(in crate::space) struct Pair {
    /// Prepares the space. Runs on CPU 0, which does not run the space.
    pub(in crate::space) before: fn(&TestSpace),
    /// The programs of both CPUs.
    pub(in crate::space) cpus: [Program; 2],
    /// Looks at the space when both CPUs have left it.
    pub(in crate::space) after: fn(&TestSpace),
}

/// Returns the number of executions in which CPU 1 missed the page, and in which it found it.
pub(in crate::space) fn explore_pair(pair: Pair) -> [usize; 2] {
    explore_pair_on(pair, 96, HugePolicy::Never, 2)
}

/// As [`explore_pair`], on a machine of `frames` frames, with this policy, and with so many preemptions.
pub(in crate::space) fn explore_pair_on(
    pair: Pair,
    frames: u64,
    policy: HugePolicy,
    preemptions: usize,
) -> [usize; 2] {
    explore_pair_with(pair, frames, (policy, MthpPolicies::NEVER), preemptions)
}

/// As [`explore_pair_on`], with blocks of these sizes.
pub(in crate::space) fn explore_pair_with(
    pair: Pair,
    frames: u64,
    (policy, sizes): (HugePolicy, MthpPolicies),
    preemptions: usize,
) -> [usize; 2] {
    let options = move || VmOptions { huge_pages: policy, mthp: sizes, ..VmOptions::default() };
    explore_pair_set_up(pair, frames, preemptions, options)
}

/// As [`explore_pair_on`], on a system with these options.
pub(in crate::space) fn explore_pair_set_up(
    pair: Pair,
    frames: u64,
    preemptions: usize,
    options: impl Fn() -> VmOptions<'static, Tests> + Send + Sync + 'static,
) -> [usize; 2] {
    let size = Size { frames, cpus: 2, preemptions };
    explore_space(size, options, move |machine, space| one_execution(machine, space, pair), |_| ())
}

fn one_execution(machine: &'static Tests, space: &'static TestSpace, pair: Pair) -> bool {
    (pair.before)(space);
    // Checkers look at what a CPU has cached: a word that is a step of the model, so it must be there before.
    for cpu in [0, 1] {
        machine.cached(cpu, START);
    }
    refill_zeros();
    let run = move |cpu: usize| {
        let running = space.activate(None);
        let found = pair.cpus[cpu](&machine, space);
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

/// Stores to the page as a program does, with the faults that this takes. False where one is refused.
pub(in crate::space) fn store(machine: &Tests, space: &TestSpace, page: Vpn) -> bool {
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

/// Programs that store to the first page, and to the last of its table.
pub(in crate::space) fn store_to_start(machine: &'static Tests, space: &'static TestSpace) -> bool {
    store(machine, space, START)
}

pub(in crate::space) fn store_to_last(machine: &'static Tests, space: &'static TestSpace) -> bool {
    store(machine, space, LAST)
}

/// The mapping, in a table that another mapping keeps.
pub(in crate::space) fn mapped(space: &TestSpace) {
    map(space, START, PAGES);
    map(space, START.add(8), 1);
    touch(space, START.add(8));
}

/// Its first page was written.
pub(in crate::space) fn written(space: &TestSpace) {
    mapped(space);
    touch(space, START);
}

/// Asserts that no CPU has a translation of the first page cached that `is_wrong`.
pub(in crate::space) fn assert_none_cached(machine: &Tests, is_wrong: impl Fn(&Leaf) -> bool) {
    for cpu in 0..2 {
        assert!(
            !machine.cached(cpu, START).is_some_and(|leaf| is_wrong(&leaf)),
            "a CPU has a translation cached that is wrong by now"
        );
    }
}
