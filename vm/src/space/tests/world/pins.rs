//! Pins, and what is true of a page that is pinned.

use crate::frame::PinnedFrame;
use crate::machine::testing::{TestCpu, TestMachine};
use crate::space::tests::world::base::{TestSpace, TestVm, counts};
use crate::space::{Counter, Error, MemlockLimit, PinnedPages};
use crate::units::{Access, Pfn, VirtAddr};
use std::vec::Vec;

pub(in crate::space::tests) type Slot<'v> = Option<PinnedFrame<'v, TestMachine>>;
pub(in crate::space::tests) type Pins<'a, 'v> = PinnedPages<'a, 'v, TestMachine, Vec<Slot<'v>>>;
pub(in crate::space::tests) type Limit = MemlockLimit<TestCpu>;

pub(in crate::space::tests) fn slots<'v>(pages: usize) -> Vec<Slot<'v>> {
    (0..pages).map(|_| None).collect()
}

pub(in crate::space::tests) fn pin<'a, 'v>(
    space: &TestSpace<'v>,
    addr: VirtAddr,
    pages: usize,
    access: Access,
    limit: &'a Limit,
) -> Result<Pins<'a, 'v>, Error> {
    space.pin_pages(addr, access, limit, slots(pages))
}

pub(in crate::space::tests) fn pfns(pins: &Pins<'_, '_>) -> Vec<Pfn> {
    pins.frames().map(PinnedFrame::pfn).collect()
}

/// Recounts the pins in the records of all frames: as many as `pins` hold, which are exclusive, or an
/// object's.
pub(in crate::space::tests) fn assert_pinned(vm: &TestVm<'_>, pins: &[&Pins<'_, '_>]) {
    let held: usize = pins.iter().map(|pins| pins.len()).sum();
    assert_eq!(counts(vm).pinned, held as u64, "pins in the records, and pins held");
    for pfn in pins.iter().flat_map(|pins| pfns(pins)) {
        let meta = vm.memory().meta(pfn).unwrap();
        let holders = pins.iter().flat_map(|pins| pfns(pins)).filter(|&other| other == pfn).count();
        assert_eq!(meta.pincount(), holders as u32);
    }
    let totals = vm.totals();
    let under_way = totals.get(Counter::FollPinAcquired) - totals.get(Counter::FollPinReleased);
    assert_eq!(under_way, held as u64);
}
