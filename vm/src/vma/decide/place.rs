//! The choice of an address for a mapping without a fixed one, by Linux's rules for x86-64.
//!
//! ```text
//!  0   min            legacy_base                               mmap_base      end
//!  |....|##..##.........|......##....##......................######|...[stack]..|
//!                       up ->                              <- down
//! ```
//!
//! A hint is granted if its pages are free. Otherwise the mapping goes to the upper end of the highest gap
//! below `mmap_base` that is large enough; if there is none, to the lower end of the lowest gap above
//! `legacy_base`. A mapping in the lowest 2 GiB (MAP_32BIT) is searched upwards from 1 GiB only.
//!
//! Two refinements. A guard gap stays free below a mapping that grows down, so that its growth meets an
//! unmapped page before a neighbour: its pages belong to no gap. Private anonymous memory of whole huge
//! pages, without a hint, is aligned to a huge page: the search asks for one huge page more, and the mapping
//! starts at a boundary inside the gap found.
//!
//! The choice sees gaps only, through [`Gaps`]: the index answers in O(log n); tests use a list.

use crate::units::{PageSize, VirtAddr, Vpn, VpnRange};

/// Pages that Linux keeps free below a mapping that grows down.
pub const GUARD_PAGES: u64 = 256;

/// The window searched for MAP_32BIT: 1 GiB to 2 GiB.
pub const LOW: VpnRange = VpnRange { start: Vpn(0x4_0000), end: Vpn(0x8_0000) };

/// Searches for gaps between mappings. The [`GUARD_PAGES`] below a mapping that grows down belong to no gap,
/// as far as nothing else is mapped there.
pub trait Gaps {
    /// First of the lowest `nr_pages` free pages in a row within the window.
    fn lowest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn>;
    /// First of the highest `nr_pages` free pages in a row within the window.
    fn highest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn>;
}

/// The areas of an address space that are searched for a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Pages that may be mapped.
    pub user: VpnRange,
    /// Downward searches begin here.
    pub mmap_base: Vpn,
    /// Upward searches begin here.
    pub legacy_base: Vpn,
}

/// The direction of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The highest gap, at its upper end.
    Down,
    /// The lowest gap, at its lower end.
    Up,
}

/// A search for a gap in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The pages searched.
    pub window: VpnRange,
    /// The end that the search begins at.
    pub direction: Direction,
}

/// A request for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Number of pages; not 0.
    pub nr_pages: u64,
    /// First page of the hint.
    pub hint: Option<Vpn>,
    /// The pages within which a hint may be granted.
    pub hint_window: VpnRange,
    /// `Huge` prefers a huge-page boundary; without one, any gap is used.
    pub boundary: PageSize,
    /// The searches, in this order.
    pub searches: [Option<Search>; 2],
}

impl Areas {
    /// The page of a hint: the address rounded down to a page, but not below the first page that may be
    /// mapped. `None` for an address in page 0.
    pub fn hint(&self, addr: VirtAddr) -> Option<Vpn> {
        (addr.vpn().0 != 0).then(|| addr.vpn().max(self.user.start))
    }

    /// A request for any address: downwards from `mmap_base`, then upwards from `legacy_base`.
    pub fn anywhere(&self, hint: Option<Vpn>, nr_pages: u64) -> Placement {
        let down = VpnRange::new(self.user.start, self.mmap_base);
        let up = VpnRange::new(self.legacy_base, self.user.end);
        Placement {
            nr_pages,
            hint,
            hint_window: self.user,
            boundary: PageSize::Base,
            searches: [
                Some(Search { window: down, direction: Direction::Down }),
                Some(Search { window: up, direction: Direction::Up }),
            ],
        }
    }

    /// A request for an address in the lowest 2 GiB (MAP_32BIT).
    pub fn low(&self, hint: Option<Vpn>, nr_pages: u64) -> Placement {
        Placement {
            hint_window: VpnRange::new(self.user.start, LOW.end),
            searches: [Some(Search { window: LOW, direction: Direction::Up }), None],
            ..self.anywhere(hint, nr_pages)
        }
    }
}

impl Placement {
    /// The request for private anonymous memory: on a huge-page boundary if it has no hint and its length is
    /// a multiple of a huge page.
    pub fn for_private_anonymous(self) -> Self {
        let huge = self.hint.is_none() && self.nr_pages.is_multiple_of(PageSize::Huge.pages());
        Self { boundary: if huge { PageSize::Huge } else { PageSize::Base }, ..self }
    }
}

/// The first page for a mapping; `None` if no gap is large enough (ENOMEM).
pub fn place(gaps: &impl Gaps, request: &Placement) -> Option<Vpn> {
    if let Some(hint) = request.hint
        && is_free(gaps, request, hint)
    {
        return Some(hint);
    }
    on_boundary(gaps, request).or_else(|| find(gaps, request, request.nr_pages))
}

/// As [`place`], only where pages of `size` begin; the hint is such a place. (Linux:
/// `hugetlb_get_unmapped_area`.)
pub fn place_aligned(gaps: &impl Gaps, request: &Placement, size: PageSize) -> Option<Vpn> {
    if let Some(hint) = request.hint
        && is_free(gaps, request, hint)
    {
        return Some(hint);
    }
    let unit = size.pages();
    let found = find(gaps, request, request.nr_pages.checked_add(unit - 1)?)?;
    // From both directions Linux takes the boundary in the gap that is nearest to where it began.
    Some(Vpn(found.0.next_multiple_of(unit)))
}

/// As [`place`], but where pages of `size` begin if there is room, the mapping is as large, and its hint
/// is not free. (Linux: `shmem_get_unmapped_area`.)
pub(crate) fn place_preferring(gaps: &impl Gaps, request: &Placement, size: PageSize) -> Option<Vpn> {
    let plain = place(gaps, request)?;
    let is_good = request.hint == Some(plain) || plain.0.is_multiple_of(size.pages());
    if is_good || request.nr_pages < size.pages() || mutant!("shared-thp.place-unaligned") {
        return Some(plain);
    }
    place_aligned(gaps, request, size).or(Some(plain))
}

/// Whether the mapping fits at `start`, inside the window for hints.
fn is_free(gaps: &impl Gaps, request: &Placement, start: Vpn) -> bool {
    let Some(end) = start.0.checked_add(request.nr_pages).map(Vpn) else { return false };
    let hint = VpnRange::new(start, end);
    request.hint_window.covers(hint) && gaps.lowest(request.nr_pages, hint) == Some(start)
}

/// A start on the boundary asked for: a gap longer by one boundary unit holds one.
fn on_boundary(gaps: &impl Gaps, request: &Placement) -> Option<Vpn> {
    let unit = request.boundary.pages();
    if request.boundary == PageSize::Base {
        return None;
    }
    let found = find(gaps, request, request.nr_pages.checked_add(unit)?)?;
    // Linux takes the upper of two boundaries where both fit.
    Some(Vpn((found.0 / unit + 1) * unit))
}

/// The gap found by the first search that finds one.
fn find(gaps: &impl Gaps, request: &Placement, nr_pages: u64) -> Option<Vpn> {
    let mut searches = request.searches.iter().flatten();
    searches.find_map(|search| match search.direction {
        Direction::Down => gaps.highest(nr_pages, search.window),
        Direction::Up => gaps.lowest(nr_pages, search.window),
    })
}
