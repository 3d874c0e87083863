//! CPUs that load spaces.

use super::world::{PAGE, boot_map, space_of, store};
use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::{MapRequest, Vm};
use crate::units::{Access, CpuId};
use std::thread;

/// A scheduler that switches between two threads of one program.
#[test]
fn a_cpu_that_switches_from_a_space_to_itself_is_flushed_with_it() {
    let machine = TestMachine::with_cpus(600, 2);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    machine.run_as(0);
    let space = space_of(&vm);
    space.enter_cpu();
    space.switch_from(&space);
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
    space.leave_cpu();
    assert!(space.runs_nowhere());
}

#[test]
fn a_cpu_that_switches_to_another_space_leaves_the_first() {
    let machine = TestMachine::new(600);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    let (first, second) = (space_of(&vm), space_of(&vm));
    first.enter_cpu();
    second.switch_from(&first);
    assert!(first.runs_nowhere() && !second.runs_nowhere());
    second.leave_cpu();
}
