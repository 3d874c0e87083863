//! Large ranges, and the flushes that clear them.

use crate::machine::Entry;
use crate::machine::testing::TestMachine;
use crate::space::tests::world::base::TABLE as TABLE_PAGES;
use crate::space::*;
use crate::table::testing::pfnmap_nowhere;
use crate::table::walk;
use crate::units::{Level, PAGE_SIZE, PageSize, Pfn, PfnRange, Rights, VirtAddr, Vpn};

pub(in crate::space::tests) type TestSpace<'a> = AddressSpace<'a, TestMachine>;
pub(in crate::space::tests) const PAGE: u64 = PAGE_SIZE as u64;
/// Pages of the range that is cleared, from the middle of a table to the middle of another.
pub(in crate::space::tests) const PAGES: u64 = 6 * TABLE_PAGES;
pub(in crate::space::tests) const FIRST: u64 = 20 * TABLE_PAGES + 100;
/// Pages mapped beside it, before and behind.
pub(in crate::space::tests) const BESIDE: u64 = 10;
pub(in crate::space::tests) const GIANT: u64 = PageSize::Giant.pages();

pub(in crate::space::tests) fn at(page: u64) -> VirtAddr {
    Vpn(page).addr()
}

pub(in crate::space::tests) fn map(space: &TestSpace<'_>, first: u64, pages: u64) {
    let place = Place::Fixed(at(first));
    space.map(&MapRequest { place, populate: true, ..MapRequest::anonymous(pages * PAGE) }).unwrap();
}

/// The range and what is beside it, populated.
pub(in crate::space::tests) fn map_all(space: &TestSpace<'_>) {
    map(space, FIRST - BESIDE, PAGES + 2 * BESIDE);
}

pub(in crate::space::tests) fn entry(space: &TestSpace<'_>, page: u64) -> Entry {
    let reading = space.vm().read();
    walk(space.inspect().page_table(), Vpn(page), Level::Pte, &reading).entry()
}

/// Pages of the range that have an entry.
pub(in crate::space::tests) fn left(space: &TestSpace<'_>) -> u64 {
    (FIRST..FIRST + PAGES).filter(|&page| entry(space, page) != Entry::Absent).count() as u64
}

pub(in crate::space::tests) fn beside() -> impl Iterator<Item = u64> {
    (FIRST - BESIDE..FIRST).chain(FIRST + PAGES..FIRST + PAGES + BESIDE)
}

pub(in crate::space::tests) fn assert_beside_is_there(space: &TestSpace<'_>) {
    assert!(
        beside().all(|page| space.inspect().resident_frame(Vpn(page)).is_some()),
        "a page beside the range went"
    );
}

pub(in crate::space::tests) fn flushes(space: &TestSpace<'_>) -> u64 {
    space.vm().totals().get(Counter::TlbFlush)
}

/// Clears the range by one call, while this CPU runs the space, with one flush.
pub(in crate::space::tests) fn cleared_with_one_flush(
    space: &TestSpace<'_>,
    clear: impl FnOnce(&TestSpace<'_>),
) {
    let running = space.activate(None);
    let before = flushes(space);
    clear(space);
    assert_eq!(flushes(space) - before, 1, "flushes of one call");
    assert_eq!(left(space), 0, "entries are left");
    drop(running);
}

pub(in crate::space::tests) fn drop_contents(space: &TestSpace<'_>) {
    space.advise(at(FIRST), PAGES * PAGE, Advice::DontNeed).unwrap();
}

pub(in crate::space::tests) fn map_pfn(space: &TestSpace<'_>) {
    let frames = PfnRange { start: Pfn(16 * GIANT), end: Pfn(22 * GIANT) };
    let request = MapRequest {
        place: Place::Fixed(at(8 * GIANT)),
        sharing: Sharing::Shared,
        ..MapRequest::anonymous(6 * GIANT * PAGE)
    };
    let pfnmap = pfnmap_nowhere(frames, Rights::all());
    space
        .map(&request.backed_by(MapBacking::Pfn {
            frames: &pfnmap,
            first: frames.start,
            largest: PageSize::Huge,
        }))
        .unwrap();
}

pub(in crate::space::tests) fn nr_pfn_pages(space: &TestSpace<'_>) -> usize {
    let leaves = (8 * GIANT..14 * GIANT).step_by(PageSize::Huge.pages() as usize);
    leaves.filter(|&page| entry(space, page) != Entry::Absent).count()
}
