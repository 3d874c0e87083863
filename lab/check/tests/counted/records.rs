//! Read-modify-writes of the records of frames, counted.

use interleaf::machine::AccessKind;
use interleaf::space::{AddressSpace, Vm};
use interleaf::table::format::X86_64;
use interleaf::units::{PAGE_SIZE, Pfn, VirtAddr};
use interleaf_lab::machine::soft::SoftMachine;
use interleaf_lab::machine::watch::{Footprint, Watch};
use std::collections::BTreeSet;

pub(super) type Machine = SoftMachine<Watch, X86_64>;
pub(super) type Space<'v> = AddressSpace<'v, Machine>;

pub(super) const PAGE: u64 = PAGE_SIZE as u64;
/// Pages, of several tables.
pub(super) const PAGES: u64 = 1200;

pub(super) fn addr(base: VirtAddr, nr: u64) -> VirtAddr {
    VirtAddr(base.0 + nr * PAGE)
}

/// The frames of the pages.
pub(super) fn frames(space: &Space<'_>, base: VirtAddr) -> Vec<Pfn> {
    let frame = |nr| space.inspect().resident_frame(addr(base, nr).vpn()).expect("mapped").0;
    (0..PAGES).map(frame).collect()
}

/// Read-modify-writes on the records of the frames, for each frame.
pub(super) fn updates(vm: &Vm<'_, Machine>, frames: &[Pfn], seen: &Footprint) -> f64 {
    let record = |pfn: &Pfn| std::ptr::from_ref(vm.memory().meta(*pfn).expect("a frame")).addr();
    let records: BTreeSet<usize> = frames.iter().map(record).collect();
    let is_of_one = |at: usize| records.range(..=at).next_back().is_some_and(|start| at < start + 32);
    let updates = seen.uses().filter(|used| used.kind == AccessKind::Update && is_of_one(used.addr));
    updates.map(|used| used.count).sum::<u64>() as f64 / frames.len() as f64
}
