//! munmap: mappings are removed, their entries cleared and flushed on every CPU, their frames freed.
//!
//! ```text
//!   decide what remains at the ends ─► mark stale, publish ─► clear entries ─► cut tables ─► flush ─► free
//! ```
//!
//! The range is locked to write until the new mappings are published, and from then to the end of the flush
//! it keeps out other writers, so that no address is used again before (protocol P3); readers are let in.
//! Faults elsewhere speculate meanwhile.

use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, PublishedGuard, Split, VmaEdit, Zap};
use crate::space::{AddressSpace, Error, RangeGuard};
use crate::units::{VirtAddr, Vpn, VpnRange};
use crate::vma::{VmaState, cut};

impl<M: Machine> AddressSpace<'_, M> {
    /// Unmaps all pages of the range; holes are no error. When it returns, no CPU uses an old translation.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start, no length, an end beyond the space, or a range that cuts a
    /// page of the hugetlb pool; [`Error::NoMemory`]
    /// where a mapping would have to be split and may not be, or there is no memory for records: then nothing
    /// has changed.
    pub fn unmap(&self, addr: VirtAddr, len_bytes: u64) -> Result<(), Error> {
        let unaligned = if mutant!("unmap.wrong-errno") { Error::NoMemory } else { Error::Invalid };
        let range = self.mappings.layout.user_range(addr, len_bytes).ok_or(unaligned)?;
        let unmap = Unmap { mappings: &self.mappings, entries: &self.entries };
        unmap.run(self.mappings.write(range), range).map(drop)
    }
}

/// Removing the mappings of a range, and all that its entries map.
pub(in crate::space) struct Unmap<'a, 'v, M: Machine> {
    pub mappings: &'a Mappings<'v, M>,
    pub entries: &'a Entries<'v, M>,
}

impl<'a, M: Machine> Unmap<'a, '_, M> {
    /// Unmaps the pages of the range. `Ok` with the guard that keeps other writers out until the caller drops
    /// it; `None` where nothing was mapped.
    ///
    /// # Errors
    /// As of [`AddressSpace::unmap`].
    pub fn run(
        self,
        guard: RangeGuard<'a, M>,
        range: VpnRange,
    ) -> Result<Option<PublishedGuard<'a, M>>, Error> {
        let Self { mappings, entries } = self;
        let edit = VmaEdit::new(mappings, &guard);
        let Some(first) = edit.first_in(range) else { return Ok(None) };
        let splits = first.range.start < range.start && first.range.end > range.end;
        if splits {
            mappings.limits(guard.token()).may_split()?;
        }
        let [left, mut right] = cut(&first, range);
        let mut may_be_cut = first.may_be_cut(range);
        if first.range.end < range.end {
            let last = edit.at(Vpn(range.end.0 - 1));
            may_be_cut &= last.is_none_or(|last| last.may_be_cut(range));
            right = last.and_then(|last| cut(&last, range)[1]);
        }
        if !may_be_cut {
            return Err(Error::Invalid);
        }
        let covered = VpnRange::new(
            left.map_or(range.start, |piece| piece.range.start),
            right.map_or(range.end, |piece| piece.range.end),
        );
        let live = |attributes| (attributes, VmaState::Live);
        let zaps_first = mutant!("unmap.zapped-before-replaced");
        if zaps_first {
            Zap::of_contents(entries).run(guard.token(), range);
        }
        let splits = Split::new(entries).reserve(guard.token(), range)?;
        edit.replace(covered, &[left.map(live), right.map(live)], range)?;
        let guard = mappings.published(entries, guard, range);
        Split::new(entries).ends(guard.token(), range, splits);
        if !zaps_first {
            Zap::of_unmapped(entries).run_published(mappings, &guard, range, [left, right]);
        }
        Ok(Some(guard))
    }

    /// Unmaps the pages of the range for a caller that goes on alone. In two steps, as MAP_FIXED is refused:
    /// the mappings are cut at the ends of the range, and then those between are removed.
    ///
    /// # Errors
    /// As of [`AddressSpace::unmap`]; mappings may have been cut by then.
    #[cold]
    #[inline(never)]
    pub fn run_alone(self, guard: &RangeGuard<'_, M>, range: VpnRange) -> Result<(), Error> {
        let Self { mappings, entries } = self;
        let token = guard.token();
        if mappings.first_in(token, range).is_none() {
            return Ok(());
        }
        let splits = Split::new(entries).reserve(token, range)?;
        mappings.split_mappings(guard, range)?;
        VmaEdit::new(mappings, guard).replace(range, &[], range)?;
        let pending = entries.tlb.begin_edit();
        Split::new(entries).ends(token, range, splits);
        let hole = mappings.hole_around_seldom(token, range);
        entries.gather_pending(token, &pending, range, |gather| {
            Zap::of_unmapped(entries).in_hole(range, hole, gather);
        });
        drop(pending);
        mappings.unmap_leaving();
        Ok(())
    }
}
