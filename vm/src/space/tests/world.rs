//! A machine whose memory is one region.

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::{AddressSpace, Fault, Layout, Path, Vm};
use crate::units::{Access, NodeId, PAGE_SIZE, VirtAddr};

pub(in crate::space) const PAGE: u64 = PAGE_SIZE as u64;

/// All frames of the machine as one dirty region of node 0.
pub(in crate::space) fn boot_map(machine: &TestMachine) -> BootMap {
    let frames = machine.frames();
    let kind = RegionKind::Usable(Init::Dirty);
    let (start, len_bytes) = (frames.start.addr(), frames.len() * PAGE);
    BootMap::new(&[Region { start, len_bytes, kind, node: NodeId(0) }]).unwrap()
}

/// A space of Linux's layout.
pub(in crate::space) fn space_of<'v>(vm: &'v Vm<'v, TestMachine>) -> AddressSpace<'v, TestMachine> {
    AddressSpace::new(vm, Layout::linux::<TestFormat>().overcommit(), Path::Speculative).unwrap()
}

/// Makes the page at `addr` present, writable.
pub(super) fn store(space: &AddressSpace<'_, TestMachine>, addr: VirtAddr) {
    space.fault(Fault { addr, access: Access::Write }).unwrap();
}
