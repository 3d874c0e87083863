//! mprotect: the mappings of a range get other rights, and so do their entries.
//!
//! ```text
//!   mapping by mapping: decide, publish ─► let readers in ─► change entries ─► flush, once
//! ```
//!
//! A locked fault beside the second half meets mappings with the new rights and entries with the old ones or
//! the new ones, as a fault that speculates always could.

use crate::machine::{Leaf, Machine};
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, PublishedGuard, Split, SplitReserve, VmaEdit};
use crate::space::vm::Reserve;
use crate::space::{AddressSpace, Error, RangeGuard};
use crate::table::LeafBits;
use crate::units::{Rights, VirtAddr, Vpn, VpnRange};
use crate::vma::{Charge, VmaFlags, protect};

impl<M: Machine> AddressSpace<'_, M> {
    /// Gives every page of the range the rights `access` (READ, WRITE, EXECUTE). When it returns, no CPU uses
    /// rights that were taken away.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start, and where the range cuts a page of the hugetlb pool;
    /// [`Error::NoMemory`] where the range leaves the space, at a hole, for too many mappings, where the
    /// pages of a mapping cannot be committed, or for lack of memory; [`Error::Access`] where a mapping may
    /// not have the rights. As in Linux earlier mappings have changed then, and one whose end alone could not
    /// be split is split at the start.
    pub fn protect(&self, addr: VirtAddr, len_bytes: u64, access: VmaFlags) -> Result<(), Error> {
        if !addr.is_page_aligned() {
            return Err(Error::Invalid);
        }
        if len_bytes == 0 {
            return Ok(());
        }
        let range = VpnRange::from_bytes(addr, len_bytes).filter(|range| !range.is_empty());
        let range = range.ok_or(Error::NoMemory)?;
        Protect { mappings: &self.mappings, entries: &self.entries }.run(range, access)
    }
}

/// Changing the rights of a range.
struct Protect<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
}

impl<'v, M: Machine> Protect<'_, 'v, M> {
    /// Gives the mappings of the range the rights, and then their entries: those of the mappings that have
    /// changed also where a later one has not.
    fn run(self, range: VpnRange, access: VmaFlags) -> Result<(), Error> {
        let Self { mappings, entries } = self;
        let guard = mappings.write(range);
        let reserve = mappings.reserve_for(guard.token(), range)?;
        let mut splits = Split::new(entries).reserve(guard.token(), range)?;
        let mut rest = range;
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            match self.one(&guard, rest, access, reserve.as_ref(), splits.as_mut()) {
                Ok(end) => rest.start = end,
                Err(error) => result = Err(error),
            }
            reserve.iter().for_each(|reserve| mappings.vm.top_up(reserve));
        }
        let changed = VpnRange::new(range.start, rest.start);
        if !changed.is_empty() {
            let guard = mappings.published(entries, guard, changed);
            Split::new(entries).ends(guard.token(), changed, splits);
            self.set_rights(&guard, changed, access.rights());
        }
        result
    }

    /// Changes the first mapping of the range, which must begin in it; not its entries. Returns where it
    /// ends.
    fn one(
        &self,
        guard: &RangeGuard<'_, M>,
        range: VpnRange,
        access: VmaFlags,
        reserve: Option<&Reserve<'_, 'v, M>>,
        splits: Option<&mut SplitReserve<'v, M>>,
    ) -> Result<Vpn, Error> {
        let edit = VmaEdit::new(self.mappings, guard);
        let vma = edit.at(range.start).ok_or(Error::NoMemory)?;
        let part = range.intersect(vma.range);
        let [prev, next] = edit.neighbours(&vma, part);
        let refused = if mutant!("protect.wrong-errno") { Error::NoMemory } else { Error::Access };
        let decided = protect(prev, &vma, next, part, access).ok_or(refused)?;
        if let Charge::More(pages) = decided.charge {
            self.mappings.limits(guard.token()).commit(pages)?;
        }
        Split::new(self.entries).move_end(splits, part.end)?;
        self.mappings.apply_change(edit, &decided.change, [prev, Some(vma), next], reserve)?;
        Ok(part.end)
    }

    /// Gives the leaves of the range at most `rights`. The right to write comes back by a fault, which may
    /// have to do more than set a bit.
    fn set_rights(&self, guard: &PublishedGuard<'_, M>, range: VpnRange, rights: Rights) {
        self.entries.edit_pending(guard, range, |table, slot, page, gather| {
            if let Some((old, true)) = table.adjust_unbounded(slot, |leaf| with_rights(leaf, rights))
                && !rights.contains(old.rights)
                && !mutant!("protect.flush-skipped")
            {
                gather.need_flush(VpnRange::new(page, page.add(table.level().entry_pages())));
            }
        });
    }
}

/// The leaf with the rights of its mapping, but not to write unless it had that; `None` where nothing
/// changes.
fn with_rights(leaf: Leaf, rights: Rights) -> Option<LeafBits> {
    let kept = rights - (Rights::WRITE - leaf.rights);
    let kept = if mutant!("protect.write-kept") { rights | (Rights::WRITE & leaf.rights) } else { kept };
    let kept = if kept.contains(Rights::READ) { kept } else { Rights::empty() };
    let dirty = leaf.dirty && !mutant!("protect.dirty-dropped");
    (kept != leaf.rights).then_some(LeafBits { rights: kept, dirty, ..LeafBits::of(leaf) })
}
