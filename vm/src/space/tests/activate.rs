//! CPUs that load spaces.

use super::world::{PAGE, boot_map, space_of, store};
use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::{AddressSpace, MapRequest, Vm};
use crate::units::{Access, CpuId, VirtAddr};
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
    assert!(space.inspect().cpus_racy().contains(CpuId(0)) && !space.runs_nowhere());
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
        assert!(first.inspect().cpus_racy().contains(CpuId(0)) && second.runs_nowhere());
    }
    machine.run_as(1);
    let refused = catch_unwind(AssertUnwindSafe(|| drop(active)));
    assert!(refused.is_err_and(|why| message_of(&*why).contains("gives up a space")));
    assert!(first.inspect().cpus_racy().contains(CpuId(0)));
    mem::forget((first, second));
}

/// A CPU that keeps a space for later is flushed with it all the same.
#[test]
fn a_lazy_cpu_flushes_for_itself_and_stays_in_the_mask() {
    let machine = TestMachine::new(600);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let active = space.activate(None);
    let base = space.map(&MapRequest::anonymous(PAGE)).unwrap();
    store(&space, base);
    assert!(machine.translate(base.vpn(), Access::Write).is_some());
    mem::forget(active.enter_lazy_tlb());
    assert!(!space.runs_nowhere() && space_of(&vm).active_here().is_none());
    space.unmap(base, PAGE).unwrap();
    assert!(!machine.has_cached(0, base.vpn()));
    drop(space.activate(space.active_here()));
    assert!(space.runs_nowhere() && space.active_here().is_none());
    drop(space.activate(None).enter_lazy_tlb());
    assert!(space.runs_nowhere() && vm.shootdown_stats().sent == 0);
}

/// Runs `flushes` on CPU 0 while this thread is CPU 1 and answers interrupts.
fn while_cpu_0(machine: &TestMachine, flushes: impl FnOnce() + Send) {
    let run = || {
        machine.run_as(0);
        flushes();
    };
    thread::scope(|scope| {
        let flushing = scope.spawn(run);
        while !flushing.is_finished() {
            TestCpu::relax();
        }
    });
}

#[test]
fn a_lazy_cpu_is_interrupted_once_and_leaves_the_space() {
    let machine = TestMachine::with_cpus(600, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let space = space_of(&vm);
    let cycles = || (0..20).for_each(|_| map_touch_unmap(&space));
    machine.run_as(1);
    for time in 1..=3 {
        let lazy = space.activate(None).enter_lazy_tlb();
        while_cpu_0(&machine, cycles);
        assert!(space.runs_nowhere() && space.active_here().is_none());
        assert!(lazy.resume().is_none());
        let stats = vm.shootdown_stats();
        assert_eq!((stats.sent, stats.lazy_entered, stats.lazy_left), (time, time, time));
    }
    // A CPU that runs the space, after it was lazy as well, is interrupted for each flush, and stays.
    let active = space.activate(None).enter_lazy_tlb().resume().unwrap();
    while_cpu_0(&machine, cycles);
    assert!(!space.runs_nowhere());
    let stats = vm.shootdown_stats();
    assert_eq!((stats.sent, stats.lazy_left), (3 + 20, 3));
    drop(active);
    assert!(space.runs_nowhere());
}

/// As a scheduler has it: CPUs keep the root, and no caller has the proof.
#[test]
fn cpus_that_keep_a_space_lazily_leave_it_when_it_ends() {
    let machine = TestMachine::with_cpus(600, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    machine.run_as(0);
    vm.trim();
    let before = vm.memory().check().unwrap().allocated;
    let keep = |space: &AddressSpace<'_, TestMachine>| mem::forget(space.activate(None).enter_lazy_tlb());
    for keepers in [&[1][..], &[0], &[1, 0]] {
        let (space, earlier) = (space_of(&vm), vm.shootdown_stats());
        let base = space.map(&MapRequest::anonymous(PAGE)).unwrap();
        store(&space, base);
        for &cpu in keepers {
            machine.run_as(cpu);
            keep(&space);
            assert!(machine.translate(base.vpn(), Access::Write).is_some());
        }
        machine.run_as(1);
        while_cpu_0(&machine, || drop(space));
        let stats = vm.shootdown_stats().since(&earlier);
        assert_eq!((stats.sent, stats.lazy_left), (u64::from(keepers[0] == 1), keepers.len() as u64));
        for cpu in [1, 0] {
            machine.run_as(cpu);
            assert!(!machine.has_cached(cpu, base.vpn()));
            assert!(machine.translate(base.vpn(), Access::Write).is_none(), "a CPU has kept the root");
        }
        vm.trim();
        assert_eq!(vm.memory().check().unwrap().allocated, before);
    }
}

#[test]
fn a_cpu_that_left_lazily_starts_with_nothing_cached_when_it_comes_back() {
    let machine = TestMachine::with_cpus(600, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let (space, other) = (space_of(&vm), space_of(&vm));
    machine.run_as(1);
    let active = space.activate(None);
    let base = space.map(&MapRequest::anonymous(2 * PAGE)).unwrap();
    let second = VirtAddr(base.0 + PAGE);
    for page in [base, second] {
        store(&space, page);
        assert!(machine.translate(page.vpn(), Access::Write).is_some());
    }
    let lazy = active.enter_lazy_tlb();
    while_cpu_0(&machine, || space.unmap(base, PAGE).unwrap());
    assert!(!machine.has_cached(1, second.vpn()), "a CPU keeps translations of a space that it has left");
    assert!(
        machine.translate(second.vpn(), Access::Write).is_none(),
        "a lazy CPU translates through the space"
    );
    let visiting = other.activate(lazy.resume());
    let active = space.activate(Some(visiting));
    assert!(machine.translate(second.vpn(), Access::Write).is_some());
    drop(active);
    assert!(space.runs_nowhere() && other.runs_nowhere());
}

fn map_touch_unmap(space: &AddressSpace<'_, TestMachine>) {
    let base = space.map(&MapRequest::anonymous(PAGE)).unwrap();
    store(space, base);
    space.unmap(base, PAGE).unwrap();
}

fn message_of(why: &(dyn Any + Send)) -> &str {
    why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied()).unwrap_or("")
}
