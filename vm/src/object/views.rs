//! Views: which spaces map an object, and where. The way from a page of an object to the entries that map it.
//!
//! ```text
//!   object   [ 0 | 1 | 2 | 3 | 4 | 5 | 6 ...          views: a list of the object's, each
//!                      │   │                             space 7, page 0 would lie at 0x1000 ─┐
//!                      ▼   ▼                             space 9, page 0 would lie at 0x0444  │
//!   space 7      [ .... 0x1002 0x1003 ... ]  ◄──────────────────────────────────────────────┘
//! ```
//!
//! A view is an object, a space and an *origin*: the address that page 0 of the object has, or would have. A
//! mapping that is split, joined, or gets other rights keeps its origin, so none of that touches a view; a
//! page of the object can have one address in each view, which is its origin and the page. A program has a
//! view or two of a library: whatever rights its segments have, they lie as they do in the file.
//!
//! A view counts the pages that its mappings cover, and goes with the last one: after their entries are
//! cleared and flushed, so what is mapped is always found. Its hull is where these pages were, at most.
//!
//! Views are found by their number, which is a hash of what they are; and those of an object by a list that
//! the object's lock guards. A walk over the list counts as a page of the view that it is at: so that stays,
//! and the walk goes on from there. A new view is the first of the list, and one that a fork makes comes just
//! behind that of the parent, whose entries it copies. So a walk meets what was there when it began, and the
//! copies of what it has not come to; and a program that makes views as fast cannot keep it going.

use crate::frame::{Memory, Registry, Removed};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{Rcu, ReadGuard};
use crate::units::{SpaceId, Vpn, VpnRange};
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;

/// Where a space maps an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewPlace {
    /// The space.
    pub space: SpaceId,
    /// The address of page 0 of the object, in pages; it may wrap.
    origin: u64,
}

impl ViewPlace {
    /// The place of a mapping of the space that has `page` of the object at `at`.
    pub(crate) fn new(space: SpaceId, at: Vpn, page: u64) -> Self {
        Self { space, origin: at.0.wrapping_sub(page) }
    }

    /// The address of a page of the object, which one of its mappings covers or has covered.
    pub(crate) fn vpn_of(self, page: u64) -> Vpn {
        Vpn(self.origin.wrapping_add(page))
    }

    /// The addresses of such pages.
    pub(crate) fn vpns_of(self, pages: &Range<u64>) -> VpnRange {
        let start = self.vpn_of(pages.start);
        VpnRange::new(start, start.add(pages.end.saturating_sub(pages.start)))
    }
}

/// A view: an object in a space. Its object's lock guards all that changes, so that is relaxed.
pub(crate) struct View<C: Cpu> {
    object: NonZeroU64,
    place: ViewPlace,
    /// Pages that mappings cover, and one for each walk that is here.
    mapped: AtomicU64<C>,
    /// The pages of the object that mappings have covered, at most.
    hull: [AtomicU64<C>; 2],
    /// Numbers of the neighbours in the object's list; 0: none.
    next: AtomicU64<C>,
    prev: AtomicU64<C>,
    /// Pages of mappings that are gone, whose entries are not flushed yet, and the next view of the space
    /// that has such. The writer that holds the space's lock alone uses them.
    leaving: AtomicU64<C>,
    next_leaving: AtomicU64<C>,
}

/// The first view of an object, by number; 0: none.
#[derive(Clone, Copy, Default)]
pub(super) struct ViewList {
    first: u64,
}

/// All views of a system.
pub(super) struct Views<'m, M: Machine> {
    registry: Registry<'m, View<M::Cpu>, M>,
}

/// A view that was taken out.
pub(super) type RemovedView<'a, 'm, M> = Removed<'a, 'm, View<<M as Machine>::Cpu>, M>;

/// Numbers that are tried for a view: the hash, and the one after it.
const TRIES: u64 = 2;

impl<C: Cpu> View<C> {
    fn new(object: NonZeroU64, place: ViewPlace, pages: &Range<u64>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            object,
            place,
            mapped: AtomicU64::new(pages.end - pages.start),
            hull: [AtomicU64::new(pages.start), AtomicU64::new(pages.end)],
            next: zero(),
            prev: zero(),
            leaving: zero(),
            next_leaving: zero(),
        }
    }

    /// Where it is.
    pub fn place(&self) -> ViewPlace {
        self.place
    }

    /// The pages that its mappings have covered, at most.
    pub fn hull(&self) -> Range<u64> {
        let [start, end] = &self.hull;
        start.load(Relaxed)..end.load(Relaxed)
    }

    /// Counts more pages. The object is locked.
    pub fn add(&self, pages: &Range<u64>) {
        let hull = self.hull();
        self.hull[0].store(hull.start.min(pages.start), Relaxed);
        self.hull[1].store(hull.end.max(pages.end), Relaxed);
        self.add_count(pages.end - pages.start);
    }

    /// As [`add`](Self::add), of a walk.
    pub fn add_count(&self, pages: u64) {
        self.mapped.store(self.mapped.load(Relaxed) + pages, Relaxed);
    }

    /// Counts fewer pages. Whether it is left then. The object is locked.
    #[must_use]
    pub fn take(&self, pages: u64) -> bool {
        let left = self.mapped.load(Relaxed).saturating_sub(pages);
        self.mapped.store(left, Relaxed);
        left == 0
    }

    /// Notes that so many pages are to be counted as gone after a flush. Returns whether there were none.
    pub fn note_leaving(&self, pages: u64) -> bool {
        let before = self.leaving.load(Relaxed);
        self.leaving.store(before + pages, Relaxed);
        before == 0
    }

    /// Puts it in front of the views of its space that have such pages.
    pub fn set_next_leaving(&self, next: u64) {
        self.next_leaving.store(next, Relaxed);
    }

    /// The object, the pages that leave it, and the next view of the space that has such; none leave then.
    pub fn take_leaving(&self) -> (NonZeroU64, u64, u64) {
        (self.object, self.leaving.swap(0, Relaxed), self.next_leaving.swap(0, Relaxed))
    }
}

impl<'m, M: Machine> Views<'m, M> {
    /// None, in frames of `memory`, for readers of `rcu`. `None` where memory does not suffice.
    pub fn new(memory: &Memory<'m, M>, rcu: &Rcu<M::Cpu>) -> Option<Self> {
        Some(Self { registry: Registry::new(memory, rcu)? })
    }

    /// The view of an object at a place, and its number.
    pub fn find<'r>(
        &'r self,
        object: NonZeroU64,
        place: ViewPlace,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Option<(NonZeroU64, &'r View<M::Cpu>)> {
        numbers_of(object, place).find_map(|number| {
            let view = self.registry.get(number, reading)?;
            (view.object == object && view.place == place).then_some((number, view))
        })
    }

    /// The view of that number.
    pub fn get<'r>(&'r self, number: u64, reading: &'r ReadGuard<'_, M::Cpu>) -> Option<&'r View<M::Cpu>> {
        self.registry.get(NonZeroU64::new(number)?, reading)
    }

    /// Makes a view, which is in no list yet. Its number; `None` where there is no memory. The caller alone
    /// makes views of the place.
    pub fn insert(
        &self,
        memory: &Memory<'m, M>,
        (object, place): (NonZeroU64, ViewPlace),
        pages: &Range<u64>,
    ) -> Option<NonZeroU64> {
        numbers_of(object, place)
            .find(|&number| self.registry.insert_new(memory, number, View::new(object, place, pages)))
    }

    /// Puts a view into the list of its object, which is locked: behind another of the list, or as the first.
    pub fn link(
        &self,
        list: &mut ViewList,
        number: NonZeroU64,
        behind: Option<NonZeroU64>,
        reading: &ReadGuard<'_, M::Cpu>,
    ) {
        let Some(view) = self.get(number.get(), reading) else { return };
        let behind = behind.filter(|_| !mutant!("views.child-first"));
        let before = behind.and_then(|behind| Some((behind, self.get(behind.get(), reading)?)));
        let next = before.map_or(list.first, |(_, before)| before.next.load(Relaxed));
        view.next.store(next, Relaxed);
        match before {
            Some((behind, before)) => {
                view.prev.store(behind.get(), Relaxed);
                before.next.store(number.get(), Relaxed);
            }
            None => list.first = number.get(),
        }
        if let Some(next) = self.get(next, reading) {
            next.prev.store(number.get(), Relaxed);
        }
    }

    /// Takes a view out of the list of its object, which is locked, and out of all views.
    pub fn unlink(
        &self,
        list: &mut ViewList,
        number: NonZeroU64,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> Option<RemovedView<'_, 'm, M>> {
        let view = self.get(number.get(), reading)?;
        let (next, prev) = (view.next.load(Relaxed), view.prev.load(Relaxed));
        match self.get(prev, reading) {
            Some(before) => before.next.store(next, Relaxed),
            None => list.first = next,
        }
        if let Some(after) = self.get(next, reading) {
            after.prev.store(prev, Relaxed);
        }
        self.registry.take_out(number)
    }

    /// The view of the list after that of number `at`, or the first. The object is locked.
    pub fn after<'r>(
        &'r self,
        list: &ViewList,
        at: Option<NonZeroU64>,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Option<(NonZeroU64, &'r View<M::Cpu>)> {
        let next = match at {
            None => list.first,
            Some(at) => self.get(at.get(), reading)?.next.load(Relaxed),
        };
        NonZeroU64::new(next).zip(self.get(next, reading))
    }
}

/// The numbers that a view may have.
fn numbers_of(object: NonZeroU64, place: ViewPlace) -> impl Iterator<Item = NonZeroU64> {
    let mut hash = object.get();
    // Before the space's number comes in: both count from 1, so what both are together many views have.
    if !mutant!("views.object-and-space-coincide") {
        hash = mixed(hash);
    }
    for word in [place.space.0, place.origin] {
        hash = mixed(hash ^ word);
    }
    (0..TRIES).filter_map(move |nth| NonZeroU64::new(hash.wrapping_add(nth)))
}

/// The finaliser of SplitMix64: each bit of a word moves half of the bits of the hash.
fn mixed(word: u64) -> u64 {
    let hash = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

impl<M: Machine> fmt::Debug for Views<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "views: {:?}", self.registry)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/views.rs"]
mod tests;
