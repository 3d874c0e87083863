//! One way to run a model: in all executions, a machine, a system on it, and a space.

use super::*;
use crate::machine::testing::with_leaked;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::testing::run_model;
use std::boxed::Box;
use std::sync::atomic::AtomicUsize;

/// The machine of a model, and its bound.
#[derive(Clone, Copy)]
pub(in crate::space) struct Size {
    pub(in crate::space) frames: u64,
    pub(in crate::space) cpus: u32,
    pub(in crate::space) preemptions: usize,
}

impl Size {
    /// Two CPUs and two preemptions.
    pub(in crate::space) const fn of(frames: u64) -> Self {
        Self { frames, cpus: 2, preemptions: 2 }
    }
}

/// Runs the body in all executions, each on a new system with these options. Returns how often it gave each
/// result.
pub(in crate::space) fn explore_system(
    size: Size,
    options: impl Fn() -> VmOptions<'static, Tests> + Send + Sync + 'static,
    body: impl Fn(&'static Tests, &'static TestVm) -> bool + Send + Sync + 'static,
) -> [usize; 2] {
    let seen: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    run_model(size.preemptions, move || {
        with_leaked(Tests::of_format(size.frames, size.cpus), |machine| {
            let memory = boot_map(machine).claim(machine).unwrap();
            with_leaked(Vm::start(memory, options()).unwrap(), |vm| {
                seen[usize::from(body(machine, vm))].fetch_add(1, Relaxed);
            });
        });
    });
    let seen = seen.each_ref().map(|count| count.load(Relaxed));
    std::eprintln!("{seen:?}");
    seen
}

/// As [`explore_system`], with a space that each CPU has been warmed in, CPU 0 last. When it has ended,
/// `after` looks at the system, and every frame is accounted for.
pub(in crate::space) fn explore_space(
    size: Size,
    options: impl Fn() -> VmOptions<'static, Tests> + Send + Sync + 'static,
    body: impl Fn(&'static Tests, &'static TestSpace) -> bool + Send + Sync + 'static,
    after: impl Fn(&'static TestVm) + Send + Sync + 'static,
) -> [usize; 2] {
    explore_system(size, options, move |machine, vm| {
        let (before, result) = with_leaked(new_space(vm), |space| {
            let before = warm_all(machine, space, size.cpus);
            (before, body(machine, space))
        });
        vm.trim();
        after(vm);
        assert_given_back(vm, before);
        result
    })
}

/// A space whose faults speculate.
pub(in crate::space) fn new_space(vm: &'static TestVm) -> TestSpace {
    AddressSpace::new(vm, layout(), Path::Speculative).unwrap()
}

/// Warms each CPU, CPU 0 last. Returns how many frames are handed out then: counted, and not recounted, as
/// each word that is looked at before there are threads is one of the model's.
pub(in crate::space) fn warm_all(machine: &Tests, space: &TestSpace, cpus: u32) -> u64 {
    for cpu in (0..cpus as usize).rev() {
        machine.run_as(cpu.try_into().unwrap());
        warm(space);
    }
    space.vm().memory().stats().allocated()
}

/// The space has ended: as many frames are handed out as before it was made.
pub(in crate::space) fn assert_given_back(vm: &TestVm, before: u64) {
    // What the space has was there when it was counted first.
    let after = vm.memory().check().unwrap().allocated;
    assert_eq!(after, before - OF_SPACE, "frames handed out before and after");
}

pub(in crate::space) fn assert_both(seen: [usize; 2]) {
    assert!(seen.iter().all(|&count| count > 0), "the model must see both results: {seen:?}");
}
