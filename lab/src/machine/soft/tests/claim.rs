//! Memory is given to one system at a time.

use crate::machine::host::Host;
use crate::machine::soft::{MachineConfig, SoftMachine};
use interleaf::frame::{BootError, BootMap, Init, Region, RegionKind};
use interleaf::machine::Machine;
use interleaf::space::Vm;
use interleaf::table::format::X86_64;
use interleaf::units::{CpuId, NodeId, PAGE_SIZE, Pfn, PfnRange};

fn boot_map(machine: &SoftMachine<Host, X86_64>) -> BootMap {
    let frames = machine.arena().regions()[0];
    let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE_SIZE as u64);
    BootMap::new(&[Region { start, len_bytes, kind: RegionKind::Usable(Init::Dirty), node: NodeId(0) }])
        .unwrap()
}

#[test]
fn systems_come_one_after_the_other_by_unclaiming_the_machines_memory() {
    let mut machine = SoftMachine::<Host, X86_64>::new(&MachineConfig::small(1, 256)).unwrap();
    for _ in 0..3 {
        machine.unclaim_memory();
        let _cpu = machine.enter(CpuId(0));
        let vm = Vm::new(&machine, boot_map(&machine)).expect("nobody has it");
        let second = || Vm::new(&machine, boot_map(&machine)).err();
        assert_eq!(second(), Some(BootError::NotFree));
        drop(vm);
        assert_eq!(second(), Some(BootError::NotFree));
    }
}

#[test]
fn holes_between_regions_are_not_given() {
    let range = |from, to| PfnRange::new(Pfn(from), Pfn(to));
    let config = MachineConfig { regions: vec![range(16, 20), range(24, 28)], ..MachineConfig::small(1, 1) };
    let machine = SoftMachine::<Host, X86_64>::new(&config).unwrap();
    assert!(!machine.claim_memory(&[range(16, 20), range(23, 28)]));
    assert!(!machine.claim_memory(&[range(16, 28)]));
    assert!(machine.claim_memory(&[range(16, 20), range(24, 28)]));
    assert!(!machine.claim_memory(&[range(27, 28)]));
}
