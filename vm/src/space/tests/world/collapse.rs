//! Regions of base pages, and their collapse.

use crate::space::Collapsed;
use crate::space::tests::world::huge::{BASE, HUGE, TestSpace, TestVm, map, store, with_frames};
use crate::units::Vpn;
use crate::vma::{CollapseLimits, CollapseRefusal, HugePolicy, Requester};

pub(in crate::space::tests) fn byte_of(page: u64) -> u8 {
    (page % 251) as u8 + 1
}

/// Two regions of base pages: the space may have no huge pages by faults.
pub(in crate::space::tests) fn with_base_pages(test: impl FnOnce(&TestVm<'_>, TestSpace<'_>)) {
    with_frames(8 * HUGE, HugePolicy::Never, |vm, space| {
        map(&space, 0, 2 * HUGE);
        test(vm, space);
    });
}

pub(in crate::space::tests) fn fill(space: &TestSpace<'_>, pages: impl IntoIterator<Item = u64>) {
    pages.into_iter().for_each(|page| store(space, page, byte_of(page)));
}

pub(in crate::space::tests) fn collapse(
    space: &TestSpace<'_>,
    page: u64,
) -> Result<Collapsed, CollapseRefusal> {
    space.collapse_region(Vpn(BASE + page), Requester::Program, &CollapseLimits::NONE)
}
