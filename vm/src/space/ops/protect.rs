//! mprotect: the mappings of a range get other rights, and so do their entries.

use crate::machine::{Entry, Leaf, Machine};
use crate::space::Error;
use crate::space::edit::VmaEdit;
use crate::space::vm::Reserve;
use crate::space::{AddressSpace, WriteGuard};
use crate::table::{SlotRun, sweep};
use crate::units::{Rights, VirtAddr, VpnRange};
use crate::vma::{Change, Charge, VmaAttributes, VmaFlags, VmaState, protect};

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Gives every page of the range the rights `access` (READ, WRITE, EXECUTE). When it returns, no CPU uses
    /// rights that were taken away.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start; [`Error::NoMemory`] where the range leaves the space, at a
    /// hole (what came before has changed, as in Linux), or for lack of memory; [`Error::Access`] where a
    /// mapping may not have the rights.
    pub fn protect(&self, addr: VirtAddr, len_bytes: u64, access: VmaFlags) -> Result<(), Error> {
        if !addr.is_page_aligned() {
            return Err(Error::Invalid);
        }
        if len_bytes == 0 {
            return Ok(());
        }
        let range = VpnRange::from_bytes(addr, len_bytes).filter(|range| !range.is_empty());
        let range = range.ok_or(Error::NoMemory)?;
        let guard = self.lock.write();
        let reserve = self.reserve_for(range)?;
        let mut rest = range;
        while !rest.is_empty() {
            let end = self.protect_one(&guard, rest, access, reserve.as_ref())?;
            rest = VpnRange::new(end, range.end);
            reserve.iter().for_each(|reserve| self.vm.top_up(reserve));
        }
        Ok(())
    }

    /// What an edit of every mapping in the range puts aside, where that is more than one: it must not run
    /// out of memory after it has changed some.
    pub(in crate::space) fn reserve_for(&self, range: VpnRange) -> Result<Option<Reserve<'_, 'v, M>>, Error> {
        match self.first_in(range) {
            Some(vma) if vma.range.end < range.end && !mutant!("protect.reserve-skipped") => {
                self.vm.reserve().map(Some).ok_or(Error::NoMemory)
            }
            _ => Ok(None),
        }
    }

    /// Changes the first mapping of the range, which must begin in it. Returns where it ends.
    fn protect_one(
        &self,
        guard: &WriteGuard<'_, M>,
        range: VpnRange,
        access: VmaFlags,
        reserve: Option<&Reserve<'_, 'v, M>>,
    ) -> Result<crate::units::Vpn, Error> {
        let edit = VmaEdit::new(self, guard);
        let vma = edit.at(range.start).ok_or(Error::NoMemory)?;
        let part = range.intersect(vma.range);
        let (prev, next) = (edit.ending_at(vma.range.start), edit.at(vma.range.end));
        let decided = protect(prev, &vma, next, part, access).ok_or(Error::Access)?;
        if let Charge::More(pages) = decided.charge {
            self.charge_commit(pages)?;
        }
        self.apply(edit, &decided.change, [prev, Some(vma), next], reserve)?;
        self.set_rights(part, access.rights());
        Ok(part.end)
    }

    /// Carries a decided change of a mapping and its neighbours, `[prev, vma, next]`, out.
    pub(in crate::space) fn apply(
        &self,
        edit: VmaEdit<'_, '_, M>,
        change: &Change,
        [prev, vma, next]: [Option<VmaAttributes>; 3],
        reserve: Option<&Reserve<'_, 'v, M>>,
    ) -> Result<(), Error> {
        let Some(vma) = vma.filter(|_| change.removes_vma) else { return Ok(()) };
        if self.vmas.len() + change.nr_puts() > self.layout.max_mappings + change.nr_removes() {
            return Err(Error::NoMemory);
        }
        let start = prev.filter(|_| change.removes_prev).map_or(vma.range.start, |prev| prev.range.start);
        let end = next.filter(|_| change.removes_next).map_or(vma.range.end, |next| next.range.end);
        let live = change.puts.map(|attributes| attributes.map(|attributes| (attributes, VmaState::Live)));
        let (old, gone) = (VpnRange::new(start, end), VpnRange::default());
        match reserve {
            None => edit.replace(old, &live, gone),
            Some(reserve) => edit.replace_with(reserve, old, &live, gone),
        }
    }

    /// Gives the leaves of the range at most `rights`. The right to write comes back by a fault, which may
    /// have to do more than set a bit.
    fn set_rights(&self, range: VpnRange, rights: Rights) {
        self.edit_entries(range, |gather| {
            sweep(&self.table, range, |mut run: SlotRun<'_, '_, M>| {
                run.each_used(|table, slot, page| {
                    let (old, changed) = table.adjust(slot, |entry| with_rights(entry, rights));
                    if changed && weakens(old, rights) {
                        gather.weakened(VpnRange::new(page, page.add(1)));
                    }
                });
            });
        });
    }
}

/// The leaf with the rights of its mapping, but not to write unless it had that; `None` where nothing
/// changes.
fn with_rights(entry: Entry, rights: Rights) -> Option<Entry> {
    let Entry::Leaf(leaf) = entry else { return None };
    let kept = rights - (Rights::WRITE - leaf.rights);
    let kept = if mutant!("protect.write-kept") { rights | (Rights::WRITE & leaf.rights) } else { kept };
    let kept = if kept.contains(Rights::READ) { kept } else { Rights::empty() };
    (kept != leaf.rights).then_some(Entry::Leaf(Leaf { rights: kept, ..leaf }))
}

fn weakens(old: Entry, rights: Rights) -> bool {
    matches!(old, Entry::Leaf(leaf) if !rights.contains(leaf.rights))
}
