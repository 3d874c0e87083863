//! mprotect: the mappings of a range get other rights, and so do their entries.

use super::edit::Editor;
use super::error::Error;
use super::{AddressSpace, SpaceAlone};
use crate::machine::{Entry, Leaf, Machine};
use crate::table::{Run, sweep};
use crate::units::{Rights, VirtAddr, VpnRange};
use crate::vma::{Change, Charge, VmaFlags, VmaSpec, VmaState, protect};

impl<M: Machine> AddressSpace<'_, M> {
    /// Gives every page of the range the rights `access` (READ, WRITE, EXECUTE). When it returns, no CPU uses rights that were
    /// taken away.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start; [`Error::NoMemory`] where the range leaves the space, at a hole (what came
    /// before has changed, as in Linux), or for lack of memory; [`Error::Access`] where a mapping may not have the rights.
    pub fn protect(&self, addr: VirtAddr, len_bytes: u64, access: VmaFlags) -> Result<(), Error> {
        if !addr.is_page_aligned() {
            return Err(Error::Invalid);
        }
        if len_bytes == 0 {
            return Ok(());
        }
        let range = VpnRange::from_bytes(addr, len_bytes).filter(|range| !range.is_empty());
        let range = range.ok_or(Error::NoMemory)?;
        let alone = self.lock.0.lock();
        let mut rest = range;
        while !rest.is_empty() {
            let end = self.protect_one(&alone, rest, access)?;
            rest = VpnRange::new(end, range.end);
        }
        Ok(())
    }

    /// Changes the first mapping of the range, which must begin in it. Returns where it ends.
    fn protect_one(
        &self,
        alone: &SpaceAlone<'_, M>,
        range: VpnRange,
        access: VmaFlags,
    ) -> Result<crate::units::Vpn, Error> {
        let editor = Editor::new(self, alone);
        let vma = editor.at(range.start).ok_or(Error::NoMemory)?;
        let part = range.intersect(vma.range);
        let (prev, next) = (editor.ending_at(vma.range.start), editor.at(vma.range.end));
        let decided = protect(prev, &vma, next, part, access).ok_or(Error::Access)?;
        if let Charge::More(pages) = decided.charge {
            self.promise(pages)?;
        }
        self.apply(editor, &decided.change, prev, &vma, next)?;
        self.set_rights(part, access.rights());
        Ok(part.end)
    }

    /// Carries a decided change of a mapping and its neighbours out.
    pub(super) fn apply(
        &self,
        editor: Editor<'_, '_, M>,
        change: &Change,
        prev: Option<VmaSpec>,
        vma: &VmaSpec,
        next: Option<VmaSpec>,
    ) -> Result<(), Error> {
        if !change.removes_vma {
            return Ok(());
        }
        if self.vmas.len() + change.nr_puts() > self.layout.max_mappings + change.nr_removes() {
            return Err(Error::NoMemory);
        }
        let start = prev.filter(|_| change.removes_prev).map_or(vma.range.start, |prev| prev.range.start);
        let end = next.filter(|_| change.removes_next).map_or(vma.range.end, |next| next.range.end);
        let live = change.puts.map(|spec| spec.map(|spec| (spec, VmaState::Live)));
        editor.replace(VpnRange::new(start, end), &live, VpnRange::default())
    }

    /// Gives the leaves of the range at most `rights`. The right to write comes back by a fault, which may have to do more than
    /// set a bit.
    fn set_rights(&self, range: VpnRange, rights: Rights) {
        let mut gather = self.gather();
        sweep(&self.vm.memory, self.root, range, |run: Run<'_, '_, M>| {
            let Run { table, slots, first } = run;
            for slot in slots.clone() {
                let (old, changed) = table.adjust(slot, |entry| with_rights(entry, rights));
                if changed && weakens(old, rights) {
                    let page = first.add((slot - slots.start) as u64);
                    gather.weakened(VpnRange::new(page, page.add(1)));
                }
            }
        });
        self.finish(gather, range);
    }
}

/// The leaf with the rights of its mapping, but not to write unless it had that; `None` where nothing changes.
fn with_rights(entry: Entry, rights: Rights) -> Option<Entry> {
    let Entry::Leaf(leaf) = entry else { return None };
    let kept = rights - (Rights::WRITE - leaf.rights);
    let kept = if kept.contains(Rights::READ) { kept } else { Rights::empty() };
    (kept != leaf.rights).then_some(Entry::Leaf(Leaf { rights: kept, ..leaf }))
}

fn weakens(old: Entry, rights: Rights) -> bool {
    matches!(old, Entry::Leaf(leaf) if !rights.contains(leaf.rights))
}
