//! Changes of a part of a mapping, and what a refused one leaves.
//!
//! ```text
//!   VVVVVVVVVVVV   a part changes:   1. split at its start   2. split at its end   3. the change
//!   VVV[vvvv]VVV                        each may be refused: too many mappings, or a page of the pool is cut
//! ```
//!
//! Linux makes the two splits one after the other, and what it has made stays when the second is refused: the
//! mapping is two then, with equal attributes. The same rule holds here, for every call that changes
//! mappings. Only what is refused for lack of memory changes nothing: everything is prepared before.

use super::mappings::Mappings;
use super::{RangeGuard, VmaEdit};
use crate::machine::Machine;
use crate::space::Error;
use crate::space::vm::Reserve;
use crate::units::VpnRange;
use crate::vma::{Change, VmaAttributes, VmaState, split};

impl<'v, M: Machine> Mappings<'v, M> {
    /// Makes a decided change of a mapping and its neighbours, `[prev, vma, next]`, with memory from
    /// `reserve` if there is one.
    ///
    /// # Errors
    /// [`Error::NoMemory`] for too many mappings, or for lack of memory; [`Error::Invalid`] where a page of
    /// the hugetlb pool would be cut. Nothing has changed, but for a first split where the second is
    /// refused.
    pub fn apply_change(
        &self,
        edit: VmaEdit<'_, 'v, M>,
        change: &Change,
        [prev, vma, next]: [Option<VmaAttributes>; 3],
        reserve: Option<&Reserve<'_, 'v, M>>,
    ) -> Result<(), Error> {
        let Some(vma) = vma.filter(|_| change.removes_vma) else { return Ok(()) };
        let may_change = self.limits(edit.token()).may_change(change).is_ok();
        if !may_change || !vma.may_be_cut(change.part_of(&vma)) {
            return Err(self.refuse_change(edit, change, &vma, reserve));
        }
        let start = prev.filter(|_| change.removes_prev).map_or(vma.range.start, |prev| prev.range.start);
        let end = next.filter(|_| change.removes_next).map_or(vma.range.end, |next| next.range.end);
        let live = change.puts.map(|attributes| attributes.map(|attributes| (attributes, VmaState::Live)));
        replace_from(reserve, edit, VpnRange::new(start, end), &live)
    }

    /// Why a change is refused; a first split that is not stays.
    #[cold]
    #[inline(never)]
    fn refuse_change(
        &self,
        edit: VmaEdit<'_, 'v, M>,
        change: &Change,
        vma: &VmaAttributes,
        reserve: Option<&Reserve<'_, 'v, M>>,
    ) -> Error {
        let (part, limits) = (change.part_of(vma), self.limits(edit.token()));
        if limits.may_split().is_err() {
            return Error::NoMemory;
        }
        let cuts_twice = vma.range.start < part.start && part.end < vma.range.end;
        let is_first_cut_allowed = vma.may_be_cut(VpnRange::new(vma.range.start, part.start));
        if !cuts_twice || !is_first_cut_allowed {
            return Error::Invalid;
        }
        let refused = limits.may_change(change).err().unwrap_or(Error::Invalid);
        if !mutant!("change.first-split-undone") {
            let (before, rest) = split(vma, part.start);
            let pieces = [before, rest].map(|piece| Some((piece, VmaState::Live)));
            let _left_whole_for_lack_of_memory = replace_from(reserve, edit, vma.range, &pieces);
        }
        refused
    }

    /// Splits the mappings that hold the ends of a range, as MAP_FIXED does before it can be refused.
    ///
    /// # Errors
    /// [`Error::NoMemory`] where one mapping would become three and may not, [`Error::Invalid`] where a page
    /// of the hugetlb pool would be cut.
    #[cold]
    #[inline(never)]
    pub fn split_mappings(&self, guard: &RangeGuard<'_, M>, range: VpnRange) -> Result<(), Error> {
        let first = self.first_in(guard.token(), range);
        let is_hole = |vma: VmaAttributes| vma.range.start < range.start && range.end < vma.range.end;
        if first.is_some_and(is_hole) {
            self.limits(guard.token()).may_split()?;
        }
        for page in [range.start, range.end] {
            let edit = VmaEdit::new(self, guard);
            let Some(vma) = edit.ending_at(page).filter(|vma| page < vma.range.end) else { continue };
            if !vma.may_be_cut(VpnRange::new(vma.range.start, page)) {
                return Err(Error::Invalid);
            }
            let (before, rest) = split(&vma, page);
            let pieces = [before, rest].map(|piece| Some((piece, VmaState::Live)));
            replace_from(None, edit, vma.range, &pieces)?;
        }
        Ok(())
    }
}

/// Replaces the mappings of `old`, with memory from `reserve` if there is one. Called from several places,
/// and never inlined: mmap and munmap have copies of their own of what replaces.
#[inline(never)]
fn replace_from<'v, M: Machine>(
    reserve: Option<&Reserve<'_, 'v, M>>,
    edit: VmaEdit<'_, 'v, M>,
    old: VpnRange,
    new: &[Option<(VmaAttributes, VmaState)>],
) -> Result<(), Error> {
    let gone = VpnRange::default();
    match reserve {
        None => edit.replace(old, new, gone),
        Some(reserve) => edit.replace_with(reserve, old, new, gone),
    }
}
