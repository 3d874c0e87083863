//! Choosing an address, compared with trying every page.

use super::picture::{mapping, pages, parse};
use crate::units::{PageSize, VirtAddr, Vpn, VpnRange};
use crate::vma::{Areas, Direction, Gaps, LOW, Placement, Search, place};
use crate::vma::{VmaAttributes, VmaFlags};
use std::string::String;
use std::vec::Vec;

/// An index as a list: every hole is tried. The guard gap below a mapping that grows down is short, as the
/// worlds are small.
struct List(Vec<VmaAttributes>);

const GUARD_PAGES: u64 = 2;

impl List {
    fn is_free(&self, range: VpnRange) -> bool {
        self.0.iter().all(|attributes| !attributes.range.overlaps(range))
    }
    fn places(&self, nr_pages: u64, window: VpnRange) -> impl DoubleEndedIterator<Item = Vpn> {
        let last = window.end.0.checked_sub(nr_pages).map_or(window.start.0, |last| last + 1);
        let run = move |start| VpnRange::new(Vpn(start), Vpn(start + nr_pages));
        (window.start.0..last).filter(move |&start| self.is_free(run(start))).map(Vpn)
    }
    /// Whether a mapping that ends at `end` leaves the guard gap of the next mapping free.
    fn leaves_guard(&self, end: u64) -> bool {
        let next = self.0.iter().find(|attributes| attributes.range.start.0 >= end);
        next.is_none_or(|next| {
            !next.flags.contains(VmaFlags::GROWS_DOWN) || end + GUARD_PAGES <= next.range.start.0
        })
    }
    fn holes(&self, nr_pages: u64, window: VpnRange) -> impl DoubleEndedIterator<Item = Vpn> {
        self.places(nr_pages, window).filter(move |start| self.leaves_guard(start.0 + nr_pages))
    }
}

impl Gaps for List {
    fn lowest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.holes(nr_pages, window).next()
    }
    fn highest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn> {
        self.holes(nr_pages, window).next_back()
    }
}

/// The areas of a space whose user range is the picture, searched down from its end, then up from its start.
fn areas(nr_pages: u64) -> Areas {
    let user = pages(0, nr_pages);
    Areas { user, mmap_base: user.end, legacy_base: user.start }
}

/// Like a picture; `S` grows down.
fn list(picture: &str) -> List {
    let plain: String = picture.replace('S', "x");
    let mut list = parse(&plain, &".".repeat(plain.len()));
    for attributes in list.iter_mut().filter(|attributes| attributes.flags.contains(VmaFlags::EXECUTE)) {
        attributes.flags |= VmaFlags::GROWS_DOWN;
    }
    List(list)
}

/// The page of the picture that is chosen for the request.
fn placed(picture: &str, request: Placement) -> Option<u64> {
    place(&list(picture), &request).map(|vpn| vpn.0 - pages(0, 0).start.0)
}

fn anywhere(picture: &str, hint: Option<u64>, nr_pages: u64) -> Option<u64> {
    let hint = hint.map(|page| pages(page, page).start);
    placed(picture, areas(picture.len() as u64).anywhere(hint, nr_pages))
}

#[test]
fn without_a_hint_the_upper_end_of_the_highest_gap_that_fits_is_used() {
    assert_eq!(anywhere("........", None, 2), Some(6));
    assert_eq!(anywhere("r...r..r", None, 2), Some(5));
    assert_eq!(anywhere("r...r..r", None, 3), Some(1));
    assert_eq!(anywhere("r...r..r", None, 4), None);
    assert_eq!(anywhere("rrrrrrrr", None, 1), None);
    assert_eq!(anywhere("........", None, 9), None);
}

#[test]
fn a_hint_is_granted_where_it_is_free() {
    assert_eq!(anywhere("........", Some(3), 2), Some(3));
    assert_eq!(anywhere("...rr...", Some(1), 2), Some(1));
    assert_eq!(anywhere("...rr...", Some(2), 2), Some(6));
    assert_eq!(anywhere("...rr...", Some(4), 1), Some(7));
    assert_eq!(anywhere("........", Some(7), 2), Some(6));
}

#[test]
fn a_guard_gap_stays_free_below_a_mapping_that_grows_down() {
    assert_eq!(anywhere("......SS", None, 2), Some(2));
    assert_eq!(anywhere(".r..S...", None, 4), None);
    assert_eq!(anywhere("...r..SS", None, 1), Some(2));
    assert_eq!(anywhere("......SS", Some(3), 2), Some(2));
    assert_eq!(anywhere("......SS", Some(2), 2), Some(2));
    assert_eq!(anywhere("S..S....", None, 1), Some(7));
    assert_eq!(anywhere("...SS...", Some(6), 1), Some(6), "no guard gap above it");
}

#[test]
fn the_second_search_goes_upwards_from_its_own_base() {
    let user = pages(0, 12);
    let areas = Areas { mmap_base: pages(4, 4).start, legacy_base: pages(6, 6).start, ..areas(12) };
    assert_eq!(areas.user, user);
    assert_eq!(placed("............", areas.anywhere(None, 3)), Some(1));
    assert_eq!(placed("..rr........", areas.anywhere(None, 3)), Some(6));
    assert_eq!(placed("..rr...r..SS", areas.anywhere(None, 3)), None);
    assert_eq!(placed("..rr...SS...", areas.anywhere(None, 3)), Some(9));
}

#[test]
fn a_hint_is_rounded_down_but_not_below_the_first_page_that_may_be_mapped() {
    let areas = areas(8);
    let first = areas.user.start;
    assert_eq!(areas.hint(VirtAddr(0)), None);
    assert_eq!(areas.hint(VirtAddr(4095)), None);
    assert_eq!(areas.hint(VirtAddr(4096)), Some(first));
    assert_eq!(areas.hint(VirtAddr(first.add(2).addr().0 + 4095)), Some(first.add(2)));
}

#[test]
fn the_lowest_two_gib_are_searched_upwards_and_a_hint_must_end_there() {
    let space = Areas { user: VpnRange::new(Vpn(16), Vpn(1 << 35)), ..areas(8) };
    let taken =
        List(std::vec![VmaAttributes::anonymous(VpnRange::new(LOW.start, LOW.start.add(3)), VmaFlags::READ)]);
    let at = |hint, nr_pages| place(&taken, &space.low(hint, nr_pages));
    assert_eq!(at(None, 2), Some(LOW.start.add(3)));
    assert_eq!(at(Some(Vpn(64)), 2), Some(Vpn(64)));
    assert_eq!(at(Some(Vpn(LOW.end.0 - 1)), 2), Some(LOW.start.add(3)));
    assert_eq!(at(Some(Vpn(LOW.end.0 - 2)), 2), Some(Vpn(LOW.end.0 - 2)));
    assert_eq!(at(None, LOW.len()), None);
}

#[test]
fn whole_huge_pages_of_private_memory_are_aligned() {
    let unit = PageSize::Huge.pages();
    let user = VpnRange::new(Vpn(unit), Vpn(8 * unit + 5));
    let space = Areas { user, mmap_base: user.end, legacy_base: user.start };
    let (empty, end) = (List(Vec::new()), user.end.0);
    let at = |list: &List, nr_pages| place(list, &space.anywhere(None, nr_pages).for_private_anonymous());
    assert_eq!(at(&empty, unit), Some(Vpn(7 * unit)));
    assert_eq!(at(&empty, unit + 1), Some(Vpn(end - unit - 1)), "not whole huge pages");
    assert_eq!(
        place(&empty, &space.anywhere(Some(Vpn(1)), unit).for_private_anonymous()),
        Some(Vpn(end - unit))
    );
    let even = Areas { mmap_base: Vpn(8 * unit), ..space };
    let request = even.anywhere(None, unit).for_private_anonymous();
    assert_eq!(place(&empty, &request), Some(Vpn(7 * unit)), "the upper of two boundaries");
    // Only one gap, just large enough, and not on a boundary.
    let tight = List(std::vec![
        mapping('r', VpnRange::new(Vpn(unit), Vpn(2 * unit + 7))),
        mapping('r', VpnRange::new(Vpn(3 * unit + 7), user.end)),
    ]);
    assert_eq!(at(&tight, unit), Some(Vpn(2 * unit + 7)));
}

/// Whether the page is in the guard gap of the next mapping.
fn is_guard(list: &List, page: Vpn) -> bool {
    let above = list.0.iter().find(|attributes| attributes.range.start > page);
    above.is_some_and(|attributes| {
        attributes.flags.contains(VmaFlags::GROWS_DOWN) && attributes.range.start.0 - page.0 <= 2
    })
}

#[test]
fn in_every_small_world_the_choice_is_that_of_trying_every_page() {
    let pictures = (0..4u32.pow(7))
        .map(|n| (0..7).map(|page| ['.', '.', 'r', 'S'][(n >> (2 * page) & 3) as usize]).collect::<String>());
    for picture in pictures {
        let list = list(&picture);
        for (nr_pages, direction) in (1..5).flat_map(|n| [(n, Direction::Down), (n, Direction::Up)]) {
            let window = pages(1, 6);
            let free = |start: &Vpn| (start.0..start.0 + nr_pages).all(|page| !is_guard(&list, Vpn(page)));
            let mut all = list.places(nr_pages, window).filter(free);
            let expected = if direction == Direction::Down { all.next_back() } else { all.next() };
            let request = Placement {
                searches: [Some(Search { window, direction }), None],
                ..areas(7).anywhere(None, nr_pages)
            };
            assert_eq!(place(&list, &request), expected, "{nr_pages} {direction:?} in {picture}");
        }
    }
}
