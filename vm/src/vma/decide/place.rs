//! Where a mapping goes that did not say, by Linux's rules for x86-64.
//!
//! ```text
//!  0   min            legacy_base                               mmap_base      end
//!  |....|##..##.........|......##....##......................######|...[stack]..|
//!                       up ->                              <- down
//! ```
//!
//! A hint is granted where it is free. Otherwise the highest gap below `mmap_base` that is large enough is
//! used, at its upper end; where there is none, the lowest above `legacy_base`, at its lower end. Memory for
//! the lowest 2 GiB is searched upwards from 1 GiB only.
//!
//! Two refinements. Below a mapping that grows down a guard gap stays free, so that its growth meets an
//! unmapped page before it meets a neighbour: pages there belong to no gap. And private anonymous memory of
//! whole huge pages, without a hint, is put on a huge-page boundary: one huge page more is looked for, and
//! the boundary is taken from what is found.
//!
//! Choosing looks at gaps only, through [`Gaps`]; the index answers it in O(log n), a list in tests.

use crate::units::{PageSize, VirtAddr, Vpn, VpnRange};

/// Pages that Linux keeps free below a mapping that grows down.
pub const GUARD_PAGES: u64 = 256;

/// Where the lowest 2 GiB are searched (MAP_32BIT): 1 GiB to 2 GiB.
pub const LOW: VpnRange = VpnRange { start: Vpn(0x4_0000), end: Vpn(0x8_0000) };

/// What an index of mappings knows about the gaps between them. The [`GUARD_PAGES`] below a mapping that
/// grows down, as far as nothing else is mapped there, are part of none.
pub trait Gaps {
    /// First of the lowest `nr_pages` free pages in a row within the window.
    fn lowest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn>;
    /// First of the highest `nr_pages` free pages in a row within the window.
    fn highest(&self, nr_pages: u64, window: VpnRange) -> Option<Vpn>;
}

/// How an address space is divided for choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Pages that may be mapped.
    pub user: VpnRange,
    /// Downward searches begin here.
    pub mmap_base: Vpn,
    /// Upward searches begin here.
    pub legacy_base: Vpn,
}

/// Which end of the window a search begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The highest gap, at its upper end.
    Down,
    /// The lowest gap, at its lower end.
    Up,
}

/// A window to look for a gap in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Where.
    pub window: VpnRange,
    /// From which end.
    pub direction: Direction,
}

/// A request for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// How many pages; not 0.
    pub nr_pages: u64,
    /// The page hinted at.
    pub hint: Option<Vpn>,
    /// A granted hint lies within these pages.
    pub hint_window: VpnRange,
    /// `Huge` asks for a huge-page boundary; a gap without one is taken where there is no other.
    pub boundary: PageSize,
    /// Where to look, in this order.
    pub searches: [Option<Search>; 2],
}

impl Areas {
    /// The page that an address hinted at means, if any: rounded down, and up to the first page that may be
    /// mapped.
    pub fn hint(&self, addr: VirtAddr) -> Option<Vpn> {
        (addr.vpn().0 != 0).then(|| addr.vpn().max(self.user.start))
    }

    /// A place anywhere.
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

    /// A place in the lowest 2 GiB (MAP_32BIT).
    pub fn low(&self, hint: Option<Vpn>, nr_pages: u64) -> Placement {
        Placement {
            hint_window: VpnRange::new(self.user.start, LOW.end),
            searches: [Some(Search { window: LOW, direction: Direction::Up }), None],
            ..self.anywhere(hint, nr_pages)
        }
    }
}

impl Placement {
    /// The same for private anonymous memory: on a huge-page boundary if it has no hint and is whole huge
    /// pages.
    pub fn for_private_anonymous(self) -> Self {
        let huge = self.hint.is_none() && self.nr_pages.is_multiple_of(PageSize::Huge.pages());
        Self { boundary: if huge { PageSize::Huge } else { PageSize::Base }, ..self }
    }
}

/// The first page of the place for a mapping, or `None` where there is no room (ENOMEM).
pub fn place(gaps: &impl Gaps, request: &Placement) -> Option<Vpn> {
    if let Some(hint) = request.hint
        && is_free(gaps, request, hint)
    {
        return Some(hint);
    }
    on_boundary(gaps, request).or_else(|| find(gaps, request, request.nr_pages))
}

/// Whether the mapping may go there.
fn is_free(gaps: &impl Gaps, request: &Placement, start: Vpn) -> bool {
    let Some(end) = start.0.checked_add(request.nr_pages).map(Vpn) else { return false };
    let hint = VpnRange::new(start, end);
    request.hint_window.covers(hint) && gaps.lowest(request.nr_pages, hint) == Some(start)
}

/// A place on the boundary asked for, found by looking for so much more.
fn on_boundary(gaps: &impl Gaps, request: &Placement) -> Option<Vpn> {
    let unit = request.boundary.pages();
    if request.boundary == PageSize::Base {
        return None;
    }
    let found = find(gaps, request, request.nr_pages.checked_add(unit)?)?;
    // Linux takes the upper of two boundaries where both fit.
    Some(Vpn((found.0 / unit + 1) * unit))
}

/// The first search that finds a gap.
fn find(gaps: &impl Gaps, request: &Placement, nr_pages: u64) -> Option<Vpn> {
    let mut searches = request.searches.iter().flatten();
    searches.find_map(|search| match search.direction {
        Direction::Down => gaps.highest(nr_pages, search.window),
        Direction::Up => gaps.lowest(nr_pages, search.window),
    })
}
