//! Limits of a space: how many mappings it may have, and how many pages it may commit.
//!
//! This is the only place that knows how mappings are counted. The holder of a guard asks it, so a
//! count may later be kept in several parts, each drawn on by the holders of some ranges.

use super::RangeToken;
use super::mappings::Mappings;
use crate::machine::Machine;
use crate::space::Error;
use crate::vma::Change;

/// The mappings and pages that a writer may still add to a space.
pub struct Limits<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
}

impl<'v, M: Machine> Mappings<'v, M> {
    /// The limits, for the holder of a guard.
    #[inline(always)]
    pub fn limits<'a>(&'a self, _held: RangeToken<'_>) -> Limits<'a, 'v, M> {
        Limits { mappings: self }
    }
}

impl<M: Machine> Limits<'_, '_, M> {
    /// Whether mmap and brk may add a mapping. As in Linux they look at the count as it is: the last mapping
    /// may exceed the maximum by one, and it counts even where it is merged with a neighbour.
    #[inline]
    pub fn may_map(&self) -> Result<(), Error> {
        within(self.nr_mappings() <= self.max_mappings())
    }

    /// Whether a mapping may be split in two.
    #[inline]
    pub fn may_split(&self) -> Result<(), Error> {
        let one_more = usize::from(mutant!("limits.split-at-maximum"));
        within(self.nr_mappings() < self.max_mappings() + one_more)
    }

    /// Whether the change may be made. One that adds no mapping may, also where there is one too many.
    #[inline]
    pub fn may_change(&self, change: &Change) -> Result<(), Error> {
        self.may_replace(change.nr_removes(), change.nr_puts())
    }

    /// Whether so many mappings may be replaced by so many: as [`may_change`](Self::may_change).
    #[inline]
    pub fn may_replace(&self, nr_old: usize, nr_new: usize) -> Result<(), Error> {
        let adds_none = nr_new <= nr_old && !mutant!("limits.change-counts-what-stays");
        within(adds_none || self.nr_mappings() + nr_new <= self.max_mappings() + nr_old)
    }

    /// Whether a mapping may be moved: as in Linux while four more would fit, as each end of the old pages
    /// may split one.
    pub fn may_move(&self) -> Result<(), Error> {
        within(self.nr_mappings() < self.max_mappings().saturating_sub(3))
    }

    /// Whether it may be moved to a place that is named, where mappings may have to be cut, too.
    pub fn may_remap_to(&self) -> Result<(), Error> {
        within(self.nr_mappings() + 2 < self.max_mappings().saturating_sub(3))
    }

    /// Commits `pages` more (overcommit heuristic: a single request beyond all memory is refused, and there
    /// is no sum). See [`Layout::max_commit_pages`](crate::space::Layout::max_commit_pages).
    #[inline]
    pub fn commit(&self, pages: u64) -> Result<(), Error> {
        within(pages <= self.mappings.max_commit_pages || mutant!("limits.commit-unlimited"))
    }

    #[inline(always)]
    fn nr_mappings(&self) -> usize {
        self.mappings.vmas.len()
    }

    #[inline(always)]
    fn max_mappings(&self) -> usize {
        self.mappings.layout.max_mappings
    }
}

#[inline(always)]
fn within(limit_holds: bool) -> Result<(), Error> {
    if limit_holds { Ok(()) } else { Err(Error::NoMemory) }
}
