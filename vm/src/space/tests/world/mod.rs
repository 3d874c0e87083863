//! The spaces of the tests, by kind of memory, and a machine whose memory is one region.

pub(super) mod base;
pub(super) mod bounded;
pub(super) mod collapse;
pub(super) mod disk;
pub(super) mod helpers;
pub(super) mod huge;
pub(super) mod large;
pub(super) mod mishaps;
pub(super) mod object;
pub(super) mod pager;
pub(super) mod pins;
pub(super) mod pool;
pub(super) mod remap;
pub(super) mod rmap;
pub(super) mod shared_huge;
pub(super) mod sizes;
pub(super) mod zero;

use crate::frame::{BootMap, Init, Region, RegionKind};
use crate::machine::Format;
use crate::machine::testing::{TestFormat, TestMachine};
use crate::space::{AddressSpace, Fault, Layout, Path, Vm};
use crate::units::{Access, NodeId, PAGE_SIZE, VirtAddr, VpnRange};
use std::boxed::Box;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

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

/// Copies the translations of the pages, as a device would: see `machine::testing::copies`.
pub(in crate::space) fn copy_translations<F: Format>(
    space: &AddressSpace<'_, TestMachine<F>>,
    pages: VpnRange,
) {
    space.vm().machine().copy_translations((space.id().0, space.root()), pages);
}

/// What no flush has told since it was copied is as it was. Returns how many copies there are.
pub(in crate::space) fn check_copies<F: Format>(space: &AddressSpace<'_, TestMachine<F>>) -> usize {
    let kept = space.vm().machine().check_copies((space.id().0, space.root()));
    kept.unwrap_or_else(|page| panic!("the translation of {page:?} has changed, and no flush told that"))
}

/// Lives for ever, so that threads which are left may go on with it.
pub(in crate::space) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// What `f` returns on a thread of its own; `None` where it has not ended in time: the thread is left.
pub(in crate::space) fn ends_in<R: Send + 'static>(
    seconds: u64,
    f: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(f()));
    receiver.recv_timeout(Duration::from_secs(seconds)).ok()
}
