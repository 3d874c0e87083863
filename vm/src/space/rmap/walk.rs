//! One walk over the spaces that may map a frame: those of the tree below its node, or those of its object's
//! views.

use super::{ObjectViews, RmapEntry, Visited};
use crate::anon::{AnonNodes, PlaceLost, STEPS, TreePlace};
use crate::frame::{AnonKey, FrameMeta};
use crate::machine::{Entry, Leaf, Machine};
use crate::space::edit::entries::Entries;
use crate::space::{AddressSpace, SpaceId, Vm};
use crate::table::{LockedTable, walk};
use crate::units::{Level, Pfn, Vpn};
use core::num::NonZeroU64;
use core::ops::{ControlFlow, Deref};

/// Spaces whose numbers are copied under one lock of the tree, at most.
const FEW: usize = if cfg!(any(loom, debug_assertions)) { 2 } else { 8 };

/// Number of times that a table is looked for which is detached meanwhile.
const TRIES: usize = 8;

/// A walk for the entries of one frame.
pub(super) struct RmapWalk<'a, 'v, M: Machine, H, F> {
    pub vm: &'a Vm<'v, M>,
    pub meta: &'a FrameMeta<M::Cpu>,
    pub pfn: Pfn,
    /// Finds a space and keeps it.
    pub hold: &'a H,
    pub visit: &'a mut F,
    /// Which of the walks for the frame it is.
    pub nth: u32,
    /// Whether the frame is of anonymous memory, which may have moved since it was first mapped.
    pub is_tree: bool,
}

/// How a walk has ended.
pub(super) enum WalkEnd {
    /// The visitor has stopped it.
    Stopped,
    /// It has come to its end, or has found as many entries as there are.
    Ended {
        /// Entries found.
        found: u32,
        /// A space on the way could not be looked at.
        is_space_missing: bool,
    },
}

/// How far a walk has come.
#[derive(Clone, Copy, Default)]
struct WalkProgress {
    found: u32,
    is_space_missing: bool,
}

impl WalkProgress {
    fn end(self) -> WalkEnd {
        WalkEnd::Ended { found: self.found, is_space_missing: self.is_space_missing }
    }
}

/// The next spaces on the way.
struct NextSpaces {
    spaces: [SpaceId; FEW],
    len: usize,
    /// `None`: the walk has ended.
    next: Option<TreePlace>,
}

impl<M: Machine> AnonNodes<'_, M> {
    /// The spaces of the next few nodes. Locks the tree for that.
    fn next_few<'v>(&self, vm: &Vm<'v, M>, place: TreePlace, key: AnonKey) -> Result<NextSpaces, PlaceLost> {
        let reading = vm.rcu.read();
        let tree = self.lock(place.node(), &reading).ok_or(PlaceLost)?;
        let mut few = NextSpaces { spaces: [SpaceId(0); FEW], len: 0, next: Some(place) };
        for _ in 0..STEPS {
            let Some(place) = few.next.filter(|_| few.len < FEW) else { break };
            let (space, next) = tree.next(place, key.node)?;
            if let Some(space) = space {
                few.spaces[few.len] = space;
                few.len += 1;
            }
            few.next = next;
        }
        Ok(few)
    }
}

impl<'a, 'v, M, S, H, F> RmapWalk<'a, 'v, M, H, F>
where
    M: Machine,
    S: Deref<Target = AddressSpace<'v, M>>,
    H: Fn(SpaceId) -> Option<S>,
    F: FnMut(&RmapEntry<'_, 'v, M>, LockedTable<'_, M>, usize) -> ControlFlow<(), Visited>,
    'v: 'a,
{
    /// Walks from the node of the key down.
    pub fn run_tree(mut self, key: AnonKey) -> WalkEnd {
        let mut progress = WalkProgress::default();
        let mut next = Some(TreePlace::At(key.node));
        // The space that the next place belongs to: kept until that was used, so that its node stays.
        let mut last: Option<S> = None;
        while let Some(place) = next {
            let Ok(few) = self.vm.anon.next_few(self.vm, place, key) else { break };
            for &id in &few.spaces[..few.len] {
                // To drop a space may be to end it: here, where no lock is held.
                last = (self.hold)(id);
                if let Some(end) = self.step(last.as_deref(), (id, key.page), &mut progress) {
                    return end;
                }
            }
            next = few.next;
        }
        drop(last);
        progress.end()
    }

    /// Walks over the views of an object; the frame is its page, or the first of a folio that begins there.
    pub fn run_views(mut self, object: NonZeroU64, page: u64) -> WalkEnd {
        let mut progress = WalkProgress::default();
        let Some(mut views) = ObjectViews::new(self.vm, object) else { return progress.end() };
        while let Some((place, hull)) = views.next() {
            if !hull.contains(&page) {
                continue;
            }
            let space = (self.hold)(place.space);
            let at = (place.space, place.vpn_of(page));
            if let Some(end) = self.step(space.as_deref(), at, &mut progress) {
                return end;
            }
        }
        progress.end()
    }

    /// Looks at the page of the next space, which was asked for by its number. The end of the walk, where
    /// this is it.
    fn step(
        &mut self,
        space: Option<&AddressSpace<'v, M>>,
        (id, page): (SpaceId, Vpn),
        progress: &mut WalkProgress,
    ) -> Option<WalkEnd> {
        // Asked once: what a safe trait answers may be another space the next time.
        let Some(space) = space.filter(|space| self.vm.is_own_space(space, id)) else {
            progress.is_space_missing = true;
            return None;
        };
        match self.look(space, page)? {
            ControlFlow::Break(()) => return Some(WalkEnd::Stopped),
            ControlFlow::Continue(visited) => progress.found += u32::from(visited == Visited::Stays),
        }
        let is_last = progress.found == self.meta.mapcount() || mutant!("rmap.first-found-only");
        is_last.then(|| progress.end())
    }

    /// Calls the visitor if the page maps the frame.
    fn look(&mut self, space: &AddressSpace<'v, M>, page: Vpn) -> Option<ControlFlow<(), Visited>> {
        if page >= space.mappings.layout.areas.user.end {
            return None;
        }
        let here = space.entries.leaf_of_frame(page, self.pfn).map(|found| (page, found));
        let moved = || if self.is_tree { space.moved_leaf(page, self.pfn, self.nth > 0) } else { None };
        let (page, (table, slot, leaf)) = here.or_else(moved)?;
        let entry = RmapEntry { space, page, leaf, walk: self.nth };
        Some((self.visit)(&entry, table, slot))
    }
}

impl<M: Machine> Entries<'_, M> {
    /// The leaf of the page, if it maps the frame, its slot, and its table, locked: the leaf stays as long as
    /// that.
    pub(super) fn leaf_of_frame(&self, page: Vpn, pfn: Pfn) -> Option<(LockedTable<'_, M>, usize, Leaf)> {
        for _ in 0..TRIES {
            let reading = self.vm.rcu.read();
            let entry = walk(&self.table, page, Level::Pte, &reading);
            if entry.table.level() != Level::Pte && entry.entry() == Entry::Absent {
                return None;
            }
            // Without the lock a page may seem to have no such leaf that gets it back: a table is filled
            // before it is linked, and a copy or a split puts a marker there first. The holder of the lock
            // sees neither; where a huge leaf was split until then, the page's leaf lies below.
            if let Some(table) = entry.table.lock() {
                if matches!(table.entry(entry.slot), Entry::Table(_)) {
                    continue;
                }
                // Of a huge leaf the page's part: a frame of its own where another space has split the folio.
                let whole = if mutant!("rmap.part-of-huge-missed") { 1 } else { table.level().entry_pages() };
                let part = page.0 & (whole - 1);
                let leaf = table
                    .owned_leaf(entry.slot)
                    .filter(|leaf| leaf.pfn.add(part) == pfn || mutant!("rmap.frame-not-compared"))?;
                return Some((table, entry.slot, leaf));
            }
        }
        None
    }
}
