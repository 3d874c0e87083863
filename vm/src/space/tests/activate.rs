//! CPUs that load spaces.

use super::world::{PAGE, boot_map, space_of, store};
use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::{MapRequest, Vm};
use crate::units::{Access, CpuId};
use core::mem;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::string::String;
use std::thread;

/// A scheduler that switches between two threads of one program.
#[test]
fn a_cpu_that_switches_from_a_space_to_itself_is_flushed_with_it() {
    let machine = TestMachine::with_cpus(600, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    machine.run_as(0);
    let space = space_of(&vm);
    let active = space.activate(Some(space.activate(None)));
    assert!(space.cpus_racy().contains(CpuId(0)) && !space.runs_nowhere());
    let base = space.map(&MapRequest::anonymous(PAGE)).unwrap();
    store(&space, base);
    assert!(machine.translate(base.vpn(), Access::Write).is_some());
    let unmap = || {
        machine.run_as(1);
        space.unmap(base, PAGE).unwrap();
    };
    thread::scope(|scope| {
        let unmapping = scope.spawn(unmap);
        while !unmapping.is_finished() {
            TestCpu::relax();
        }
    });
    assert!(!machine.has_cached(0, base.vpn()), "CPU 0 uses a page whose unmap has returned");
    drop(active);
    assert!(space.runs_nowhere());
}

#[test]
fn a_cpu_that_switches_to_another_space_leaves_the_first() {
    let machine = TestMachine::new(600);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let (first, second) = (space_of(&vm), space_of(&vm));
    let active = second.activate(Some(first.activate(None)));
    assert!(first.runs_nowhere() && !second.runs_nowhere());
    drop(active);
    assert!(second.runs_nowhere());
}

/// Nothing that the CPU could translate through is freed.
#[test]
fn a_space_that_a_cpu_has_loaded_refuses_to_end() {
    let machine = TestMachine::new(600);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let base = space.map(&MapRequest::anonymous(PAGE)).unwrap();
    mem::forget(space.activate(None));
    store(&space, base);
    let before = vm.memory().check().unwrap().allocated;
    let ended = catch_unwind(AssertUnwindSafe(|| drop(space)));
    vm.trim();
    assert_eq!(vm.memory().check().unwrap().allocated, before, "frames of a loaded space were freed");
    assert!(machine.translate(base.vpn(), Access::Write).is_some());
    assert!(ended.is_err_and(|why| message_of(&*why).contains("a space ends while")));
}

#[test]
fn a_cpu_that_has_a_space_loaded_leaves_it_before_it_loads_another() {
    let machine = TestMachine::with_cpus(600, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    machine.run_as(0);
    let (first, second) = (space_of(&vm), space_of(&vm));
    let active = first.activate(None);
    for again in [&first, &second] {
        let refused = catch_unwind(AssertUnwindSafe(|| drop(again.activate(None))));
        assert!(refused.is_err_and(|why| message_of(&*why).contains("has not loaded")));
        assert!(first.cpus_racy().contains(CpuId(0)) && second.runs_nowhere());
    }
    machine.run_as(1);
    let refused = catch_unwind(AssertUnwindSafe(|| drop(active)));
    assert!(refused.is_err_and(|why| message_of(&*why).contains("gives up a space")));
    assert!(first.cpus_racy().contains(CpuId(0)));
    mem::forget((first, second));
}

/// A CPU that keeps a space for later is flushed with it all the same.
#[test]
fn a_lazy_cpu_is_flushed_and_keeps_the_space_from_ending() {
    let machine = TestMachine::new(600);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let active = space.activate(None);
    let base = space.map(&MapRequest::anonymous(PAGE)).unwrap();
    store(&space, base);
    assert!(machine.translate(base.vpn(), Access::Write).is_some());
    active.enter_lazy_tlb();
    mem::forget(active);
    assert!(!space.runs_nowhere() && space_of(&vm).active_here().is_none());
    let active = space.active_here().unwrap();
    space.unmap(base, PAGE).unwrap();
    assert!(!machine.has_cached(0, base.vpn()));
    drop(space.activate(Some(active)));
    assert!(space.runs_nowhere() && space.active_here().is_none());
}

fn message_of(why: &(dyn Any + Send)) -> &str {
    why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied()).unwrap_or("")
}
