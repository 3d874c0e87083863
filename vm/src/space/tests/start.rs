//! Machines that the system refuses.

use super::world::boot_map;
use crate::frame::{BootError, Memory};
use crate::machine::testing::TestMachine;
use crate::space::Vm;
use crate::sync::testing::Heap;
use crate::units::MAX_CPUS;
use crate::work::WorkerPool;

#[test]
fn a_machine_of_more_cpus_than_a_mask_can_name_is_refused() {
    let most = MAX_CPUS as u32;
    for (nr_cpus, expected) in
        [(most, None), (most + 1, Some(BootError::TooManyCpus)), (9000, Some(BootError::TooManyCpus))]
    {
        let [machine, another] = [(); 2].map(|()| TestMachine::with_cpus(9000, nr_cpus));
        assert_eq!(Memory::new(&another, boot_map(&another)).err(), expected, "{nr_cpus} CPUs");
        assert_eq!(WorkerPool::spawn(&machine, &mut Heap).is_some(), expected.is_none());
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
