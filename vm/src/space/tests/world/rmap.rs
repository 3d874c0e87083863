//! What the reverse map says of frames, against the tables.

use crate::frame::FrameRef;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::base::{TestSpace, TestVm, leaf, page};
use crate::space::{RmapError, RmapFound, SpaceId};
use crate::units::{Pfn, Vpn};
use core::ops::ControlFlow;
use std::collections::{BTreeMap, BTreeSet};

pub(in crate::space::tests) type Found = (Result<RmapFound, RmapError>, BTreeSet<(SpaceId, Vpn)>);

/// What the reverse map says of a frame, with the entries that its last walk has visited.
pub(in crate::space::tests) fn rmap(vm: &TestVm<'_>, pfn: Pfn, spaces: &[TestSpace<'_>]) -> Found {
    let reference = vm.memory().try_get(pfn).unwrap();
    let mut seen = BTreeSet::new();
    let known = |id| spaces.iter().find(|space| space.id() == id);
    let found = vm.rmap_walk(&reference, known, |entry| {
        assert_eq!((entry.walk(), entry.leaf().pfn), (0, pfn), "nothing is beside the walk");
        assert!(seen.insert((entry.space().id(), entry.page())), "an entry is found twice");
        ControlFlow::Continue(())
    });
    (found, seen)
}

/// The entries of all frames in the first pages of the spaces.
pub(in crate::space::tests) fn entries(
    spaces: &[TestSpace<'_>],
    pages: u64,
) -> BTreeMap<Pfn, BTreeSet<(SpaceId, Vpn)>> {
    let mut all: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for space in spaces {
        for addr in (0..pages).map(page) {
            if let Some(leaf) = leaf(space, addr).filter(|leaf| leaf.owned()) {
                all.entry(leaf.pfn).or_default().insert((space.id(), addr.vpn()));
            }
        }
    }
    all
}

/// Each frame of the spaces has the entries that a walk of all tables finds. Returns how many entries the
/// frame with the most has.
pub(in crate::space::tests) fn assert_agrees(vm: &TestVm<'_>, spaces: &[TestSpace<'_>], pages: u64) -> usize {
    let mut most = 0;
    for (pfn, due) in entries(spaces, pages) {
        assert_eq!(rmap(vm, pfn, spaces), (Ok(RmapFound::All(due.len() as u32)), due.clone()));
        most = most.max(due.len());
    }
    most
}

/// Looks for the entries of a frame of which the caller has a reference.
pub(in crate::space::tests) fn found(
    vm: &TestVm<'_>,
    frame: &FrameRef<'_, TestMachine>,
    spaces: &[&TestSpace<'_>],
) -> Found {
    let mut seen = BTreeSet::new();
    let known = |id| spaces.iter().copied().find(|space| space.id() == id);
    let found = vm.rmap_walk(frame, known, |entry| {
        seen.insert((entry.space().id(), entry.page()));
        ControlFlow::Continue(())
    });
    (found, seen)
}
