//! Machines that the system refuses.

use super::world::{boot_map, space_of};
use crate::frame::{BootError, BootMap, Init, Memory, Region, RegionKind};
use crate::machine::Cpu;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::{AddressSpace, Fault, MapRequest, Vm};
use crate::sync::RegisterError;
use crate::sync::testing::Heap;
use crate::units::{Access, MAX_CPUS, NodeId};
use crate::work::WorkerPool;
use std::boxed::Box;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[test]
fn a_machine_of_more_cpus_than_a_mask_can_name_is_refused() {
    let most = MAX_CPUS as u32;
    for (nr_cpus, expected) in
        [(most, None), (most + 1, Some(BootError::TooManyCpus)), (9000, Some(BootError::TooManyCpus))]
    {
        let [machine, another] = [(); 2].map(|()| TestMachine::with_cpus(9000, nr_cpus));
        assert_eq!(Memory::new(&another, boot_map(&another)).err(), expected, "{nr_cpus} CPUs");
        assert_eq!(WorkerPool::spawn(&machine, &mut Heap).is_ok(), expected.is_none());
        assert_eq!(Vm::new(&machine, boot_map(&machine)).err(), expected, "{nr_cpus} CPUs");
    }
}

#[test]
fn a_second_system_on_the_same_memory_is_refused() {
    let machine = TestMachine::new(256);
    let vm = Vm::new(&machine, boot_map(&machine)).unwrap();
    assert_eq!(Vm::new(&machine, boot_map(&machine)).err(), Some(BootError::NotFree));
    assert_eq!(Memory::new(&machine, boot_map(&machine)).err(), Some(BootError::NotFree));
    assert!(vm.memory().check().is_ok());
}

/// A half of the machine's memory.
fn half(machine: &TestMachine, nth: u64) -> BootMap {
    let half = machine.frames().len() / 2;
    let start = machine.frames().start.add(nth * half).addr();
    let kind = RegionKind::Usable(Init::Dirty);
    BootMap::new(&[Region { start, len_bytes: half * 4096, kind, node: NodeId(0) }]).unwrap()
}

/// CPU 0 unmaps a page of a space that CPU 1 runs.
fn flush_reaches_another_cpu(machine: &'static TestMachine, vm: &'static Vm<'static, TestMachine>) {
    machine.run_as(0);
    let space: &AddressSpace<'_, TestMachine> = Box::leak(Box::new(space_of(vm)));
    let base = space.map(&MapRequest::anonymous(4096)).unwrap();
    space.fault(Fault { addr: base, access: Access::Write }).unwrap();
    let is_loaded: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let is_over: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let other = thread::spawn(move || {
        machine.run_as(1);
        let active = space.activate(None);
        is_loaded.store(true, SeqCst);
        while !is_over.load(SeqCst) {
            TestCpu::relax();
        }
        drop(active);
    });
    while !is_loaded.load(SeqCst) {
        thread::yield_now();
    }
    let (done, has_ended) = mpsc::channel();
    let caller = thread::spawn(move || {
        machine.run_as(0);
        space.unmap(base, 4096).unwrap();
        done.send(()).unwrap();
    });
    let ended = has_ended.recv_timeout(Duration::from_secs(20));
    is_over.store(true, SeqCst);
    assert!(ended.is_ok(), "munmap waits for a CPU whose handler another system took away");
    other.join().unwrap();
    caller.join().unwrap();
}

#[test]
fn a_second_system_on_other_memory_is_refused_and_takes_nothing_from_the_first() {
    let machine = TestMachine::leaked(2048, 2);
    machine.run_as(0);
    let first = Box::leak(Box::new(Vm::new(machine, half(machine, 0)).unwrap()));
    assert_eq!(Vm::new(machine, half(machine, 1)).err(), Some(BootError::HandlerTaken));
    flush_reaches_another_cpu(machine, first);
}

#[test]
fn a_system_that_was_leaked_keeps_its_machine_until_that_is_had_exclusively() {
    let mut machine = TestMachine::with_cpus(2048, 2);
    machine.run_as(0);
    core::mem::forget(Vm::new(&machine, half(&machine, 0)).unwrap());
    assert_eq!(Vm::new(&machine, half(&machine, 1)).err(), Some(BootError::HandlerTaken));
    machine.unclaim_memory();
    drop(Vm::new(&machine, half(&machine, 0)).unwrap());
    drop(Vm::new(&machine, half(&machine, 1)).unwrap());
}

#[test]
fn a_second_pool_of_helpers_is_refused_until_the_first_is_dropped() {
    let machine = TestMachine::with_cpus(16, 2);
    let first = WorkerPool::spawn(&machine, &mut Heap).unwrap();
    assert_eq!(WorkerPool::spawn(&machine, &mut Heap).err(), Some(RegisterError::Taken));
    drop(first);
    core::mem::forget(WorkerPool::spawn(&machine, &mut Heap).unwrap());
    assert_eq!(WorkerPool::spawn(&machine, &mut Heap).err(), Some(RegisterError::Taken));
}
