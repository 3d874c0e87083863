//! The reverse map: from a frame of user memory to the entries that map it.
//!
//! ```text
//!   record of the frame: anon key (node, page)      tree of all that forks made of one space
//!        │                                          root ── child ── grandchild
//!        └──► node ──► each space from there down        └── child
//!                        │ hold ── walk to the page ── lock the table: the frame?  ── visit
//!                        └ stop when as many were found as the mapcount says
//! ```
//!
//! A frame of anonymous memory has one entry until a fork, and then at most one in each descendant of the
//! space that mapped it first, at the page of its key: fork keeps addresses. So nothing is kept for an entry,
//! and no list: a fault stores two words in the record of the frame that it takes, a fork links one node.
//!
//! ```text
//!   record of the frame: object, page      views of the object: space and origin
//!        │                                   view ── view ── view
//!        └──► object ──► each view: hold its space ── walk to origin + page ── lock the table: the frame?
//! ```
//!
//! A frame of an object has at most one entry in each of the object's views. So nothing is kept for an entry
//! here, either.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Vm::rmap_walk`], [`Spaces::rmap_walk`], and what they say |
//! | `walk` | one walk over the spaces that may map a frame |
//! | `views` | a walk over the views of an object |
//! | `moved` | where a page is that has moved |
//! | `space_node` | a space's place in its tree |
//!
//! Nodes and trees are the floor below: `anon`; views too: `object`.
//!
//! # What an answer is worth
//!
//! The record is a hint; that the page maps the frame is read under the lock of its table. So no entry is
//! found that is none. That all were found, the mapcount says: it counts an entry from before it is there
//! until its flush is over. Where fewer are found than it says, something is beside the walk, and it walks
//! again. docs/design/reverse-map.md has the protocol and its limits.

mod moved;
mod space_node;
mod views;
mod walk;

pub(super) use space_node::SpaceNode;
pub use views::ObjectReach;
pub(super) use views::ObjectViews;

use super::{AddressSpace, SpaceId, Spaces, Vm};
use crate::frame::{FrameRef, Kind};
use crate::machine::{Cpu, Leaf, Machine};
use crate::table::LockedTable;
use crate::units::Vpn;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::{ControlFlow, Deref};
use walk::{RmapWalk, WalkEnd};

/// An entry that mapped a frame when a walk came to it. Stale at once.
#[derive(Debug)]
pub struct RmapEntry<'a, 'v, M: Machine> {
    space: &'a AddressSpace<'v, M>,
    page: Vpn,
    leaf: Leaf,
    walk: u32,
}

/// What was found of a frame's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmapFound {
    /// As many as its mapcount says: those visited in the last walk; of 0, none of those visited.
    All(u32),
    /// The visitor has stopped the walk.
    Stopped,
}

/// Why the entries of a frame cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RmapError {
    /// It is no user memory.
    NotUser,
    /// Its record has no anon key: it waits for a flush and is freed after it, or tables map it that are
    /// no space's.
    NoAnonKey,
    /// A space that may map it is not found, or has begun to end.
    SpaceMissing,
    /// Forks, unmaps or copies beside each of the walks: the number of entries was never what was found.
    Unsettled,
}

/// What a visitor has done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::space) enum Visited {
    /// It maps the frame still.
    Stays,
    /// It does not, was flushed, and is not counted in the mapcount any more.
    Gone,
}

/// Number of walks for a frame.
const WALKS: u32 = 4;

impl<'v, M: Machine> RmapEntry<'_, 'v, M> {
    /// The space.
    pub fn space(&self) -> &AddressSpace<'v, M> {
        self.space
    }

    /// The page that maps the frame.
    pub fn page(&self) -> Vpn {
        self.page
    }

    /// What the entry said.
    pub fn leaf(&self) -> Leaf {
        self.leaf
    }

    /// In which of the walks it was found, counted from 0: what earlier ones have found is found again.
    pub fn walk(&self) -> u32 {
        self.walk
    }
}

impl<'m, M: Machine> Vm<'m, M> {
    /// Calls `visit` with each entry that maps the frame, of anonymous memory or of an object: base pages, or
    /// the huge page of a folio that the frame leads. Spaces are found by `hold`, which says whatever the
    /// embedder keeps them by: what it returns keeps the space as long as it is there. (Linux:
    /// `rmap_walk_anon`, `rmap_walk_file`.)
    ///
    /// `hold` and `visit` are called with nothing held: they may call anything, these spaces too. Where
    /// something is beside the call, or was done by them, the walk may start again, up to three times, and
    /// visits what it has visited before: [`RmapEntry::walk`] tells. What `hold` has returned is asked for
    /// its space once.
    ///
    /// *What may be stale.* Each entry was there at one moment of the call. Where no fork, copy, unmap or end
    /// of a space that maps the frame is beside it, `All` are all of them.
    ///
    /// Called with no lock held and outside any read section, by a caller that may have to end a space: what
    /// `hold` has returned may be the last that kept it. Takes the locks of the frame's tree of spaces, or of
    /// its object, and of one table at a time. The reference of the caller makes a fork copy an exclusive
    /// frame instead of sharing it.
    ///
    /// # Errors
    /// Why there is no answer. Entries may have been visited by then.
    ///
    /// # Panics
    /// Where the frame is of another memory.
    pub fn rmap_walk<'v, S>(
        &self,
        frame: &FrameRef<'_, M>,
        hold: impl Fn(SpaceId) -> Option<S>,
        mut visit: impl FnMut(&RmapEntry<'_, 'v, M>) -> ControlFlow<()>,
    ) -> Result<RmapFound, RmapError>
    where
        'm: 'v,
        S: Deref<Target = AddressSpace<'v, M>>,
    {
        self.rmap_edit(frame, hold, |entry, table, _| {
            let kept = mutant!("rmap.visited-under-lock").then_some(table);
            let goes_on = visit(entry);
            drop(kept);
            match goes_on {
                ControlFlow::Continue(()) => ControlFlow::Continue(Visited::Stays),
                ControlFlow::Break(()) => ControlFlow::Break(()),
            }
        })
    }

    /// As [`rmap_walk`](Self::rmap_walk), for a visitor that may take the frame from the entry: it gets the
    /// lock of its table, under which the entry stays as it is, and the slot.
    ///
    /// # Errors
    /// As of that.
    pub(in crate::space) fn rmap_edit<'v, S, F>(
        &self,
        frame: &FrameRef<'_, M>,
        hold: impl Fn(SpaceId) -> Option<S>,
        mut visit: F,
    ) -> Result<RmapFound, RmapError>
    where
        'm: 'v,
        S: Deref<Target = AddressSpace<'v, M>>,
        F: FnMut(&RmapEntry<'_, 'v, M>, LockedTable<'_, M>, usize) -> ControlFlow<(), Visited>,
    {
        frame.assert_of(&self.memory);
        let pfn = frame.pfn();
        let meta = self.memory.meta(pfn).ok_or(RmapError::NotUser)?;
        let object = match meta.state().kind() {
            Kind::User => None,
            Kind::Object => Some(meta.owner()),
            _ => return Err(RmapError::NotUser),
        };
        let mut why = RmapError::Unsettled;
        for nth in 0..WALKS {
            if meta.mapcount() == 0 {
                return Ok(RmapFound::All(0));
            }
            let is_tree = object.is_none();
            let walk = RmapWalk { vm: self, meta, pfn, hold: &hold, visit: &mut visit, nth, is_tree };
            let end = match object {
                Some((object, page)) => {
                    walk.run_views(NonZeroU64::new(object).ok_or(RmapError::NotUser)?, page)
                }
                None => walk.run_tree(meta.anon_key().ok_or(RmapError::NoAnonKey)?),
            };
            match end {
                WalkEnd::Stopped => return Ok(RmapFound::Stopped),
                WalkEnd::Ended { found, .. } if found == meta.mapcount() => return Ok(RmapFound::All(found)),
                WalkEnd::Ended { found, .. } if mutant!("rmap.not-walked-again") => {
                    return Ok(RmapFound::All(found));
                }
                WalkEnd::Ended { is_space_missing: true, .. } => why = RmapError::SpaceMissing,
                WalkEnd::Ended { .. } => why = RmapError::Unsettled,
            }
            M::Cpu::spin(1);
        }
        Err(why)
    }

    /// Whether a space that an embedder has found is of this system, and has the number that was asked for.
    pub(in crate::space) fn is_own_space(&self, space: &AddressSpace<'_, M>, id: SpaceId) -> bool {
        let is_wanted = space.id() == id || mutant!("rmap.other-space-believed");
        let is_ours = core::ptr::addr_eq(space.vm, self) || mutant!("rmap.other-system-believed");
        is_wanted && is_ours
    }

    /// Number of nodes in all trees of spaces: one for each space, and those of ended ones that frames still
    /// name. Stale at once.
    pub fn nr_anon_nodes(&self) -> u64 {
        self.anon.len_racy()
    }
}

impl<'v, M: Machine> Spaces<'v, M> {
    /// As [`Vm::rmap_walk`], of spaces that were put in here; one that was not is missing.
    ///
    /// # Errors
    /// As of that.
    ///
    /// # Panics
    /// As that.
    pub fn rmap_walk(
        &self,
        frame: &FrameRef<'_, M>,
        visit: impl FnMut(&RmapEntry<'_, 'v, M>) -> ControlFlow<()>,
    ) -> Result<RmapFound, RmapError> {
        self.vm().rmap_walk(frame, |id| self.hold(id), visit)
    }
}

impl fmt::Display for RmapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RmapError::NotUser => "the frame is no user memory",
            RmapError::NoAnonKey => "the record of the frame has no anon key",
            RmapError::SpaceMissing => "a space that may map the frame is not found",
            RmapError::Unsettled => "the entries of the frame changed during each walk",
        })
    }
}

impl core::error::Error for RmapError {}
