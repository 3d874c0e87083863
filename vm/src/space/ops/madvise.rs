//! madvise.

use crate::machine::{Leaf, Machine};
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, Split, VmaEdit, Zap};
use crate::space::ops::populate::Populate;
use crate::space::vm::Reserve;
use crate::space::{AddressSpace, Error, RangeGuard, RangeToken};
use crate::table::LeafBits;
use crate::units::{Access, VirtAddr, VpnRange};
use crate::vma::{Backing, FlagAdvice, VmaAttributes, VmaFlags, change};

/// A program's advice about its use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// The contents are not needed: private pages are gone at once (MADV_DONTNEED).
    DontNeed,
    /// As [`DontNeed`](Self::DontNeed), of locked memory too (MADV_DONTNEED_LOCKED).
    DontNeedLocked,
    /// The contents may go when memory is short, unless they are written again (MADV_FREE).
    Free,
    /// The pages will be read soon (MADV_WILLNEED): a pager is asked for those of its objects that lack, the
    /// first 2 MiB of each mapping, and not waited for. Nothing to do for other memory.
    WillNeed,
    /// The pages will not be used soon (MADV_COLD): nothing to do while nothing is reclaimed.
    Cold,
    /// Make the pages present for reading (MADV_POPULATE_READ).
    PopulateRead,
    /// Make the pages present for writing (MADV_POPULATE_WRITE).
    PopulateWrite,
    /// Make huge pages of the aligned regions of 2 MiB, now (MADV_COLLAPSE).
    Collapse,
    /// Changes attributes of the mapping.
    Flag(FlagAdvice),
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Takes advice about a range, mapping by mapping.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start or a range that wraps, or where a mapping cannot take the
    /// advice (earlier mappings have taken it); [`Error::Again`] for too many mappings or lack of memory
    /// where attributes change, as [`protect`](Self::protect) leaves it then; [`Error::NoMemory`] at the end
    /// where there were holes, or for lack of memory. Populating stops at a hole with [`Error::NoMemory`] and
    /// at a mapping without the right with [`Error::Invalid`], and with [`Error::Fault`] where the hugetlb
    /// pool has no page. Collapsing: as [`collapse`](Self::collapse).
    pub fn advise(&self, addr: VirtAddr, len_bytes: u64, advice: Advice) -> Result<(), Error> {
        let range = VpnRange::from_bytes(addr, len_bytes).ok_or(Error::Invalid)?;
        if range.is_empty() {
            return if len_bytes == 0 { Ok(()) } else { Err(Error::Invalid) };
        }
        let advise = Advise { mappings: &self.mappings, entries: &self.entries };
        match advice {
            Advice::PopulateRead => Populate { space: self }.or_fail(range, Access::Read),
            Advice::PopulateWrite => Populate { space: self }.or_fail(range, Access::Write),
            Advice::DontNeed | Advice::DontNeedLocked | Advice::Free | Advice::Cold => {
                advise.contents(range, advice)
            }
            Advice::WillNeed => self.will_need(range),
            Advice::Collapse => self.collapse(addr, len_bytes),
            Advice::Flag(flag) => advise.flags(range, flag),
        }
    }
}

/// Taking advice about a range.
struct Advise<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
}

impl<'v, M: Machine> Advise<'_, 'v, M> {
    /// Advice about contents: no mapping changes, so the range is locked to read, and faults go on.
    fn contents(self, range: VpnRange, advice: Advice) -> Result<(), Error> {
        let Self { mappings, entries } = self;
        let guard = mappings.read_after_fork(entries, range);
        let token = guard.token();
        // Linux: VM_PFNMAP, VM_LOCKED.
        let drops_locked = advice == Advice::DontNeedLocked || mutant!("madvise.locked-dropped");
        let is_fixed = |vma: &VmaAttributes| {
            matches!(vma.backing.get(), Backing::Pfn(_))
                || vma.flags.contains(VmaFlags::LOCKED) && !drops_locked
        };
        let mapped = mappings.each_part_in(token, range, |part, vma| match (advice, vma.hugetlb()) {
            (Advice::DontNeed | Advice::DontNeedLocked, Some(pool)) => {
                entries.drop_hugetlb_pages(token, part, pool)
            }
            _ if is_fixed(vma) => Err(Error::Invalid),
            (Advice::DontNeed | Advice::DontNeedLocked, _) => {
                Split::new(entries).ends_shared(token, part)?;
                Zap::of_contents(entries).run(token, part);
                Ok(())
            }
            // Linux: what is on no list of pages to be reclaimed cannot be moved there.
            (Advice::Cold, Some(_)) => Err(Error::Invalid),
            (Advice::Free, _) if !vma.is_anonymous() => Err(Error::Invalid),
            (Advice::Free, _) => {
                Split::new(entries).owned_ends_shared(token, part)?;
                self.mark_free(token, part);
                Ok(())
            }
            _ => Ok(()),
        });
        let result = mapped.and_then(unless_holes);
        if result.is_err() {
            mappings.unlock_after_flush(entries, guard, range);
        }
        result
    }

    fn flags(self, range: VpnRange, advice: FlagAdvice) -> Result<(), Error> {
        let Self { mappings, entries } = self;
        let guard = mappings.write(range);
        let reserve = mappings.reserve_for(guard.token(), range).map_err(|_| Error::Again)?;
        if advice == FlagAdvice::HugePage {
            entries.note_huge_pages();
        }
        let mapped = mappings.each_part_in(guard.token(), range, |part, vma| {
            let refused = match advice {
                FlagAdvice::WipeOnFork => !vma.is_anonymous(),
                // As Linux refuses them for VM_PFNMAP.
                FlagAdvice::DoFork | FlagAdvice::DoDump => matches!(vma.backing.get(), Backing::Pfn(_)),
                _ => false,
            };
            if refused {
                return Err(Error::Invalid);
            }
            self.flag_of_one(&guard, part, advice, reserve.as_ref())?;
            reserve.iter().for_each(|reserve| mappings.vm.top_up(reserve));
            Ok(())
        });
        unless_holes(mapped?)
    }

    fn flag_of_one(
        &self,
        guard: &RangeGuard<'_, M>,
        part: VpnRange,
        advice: FlagAdvice,
        reserve: Option<&Reserve<'_, 'v, M>>,
    ) -> Result<(), Error> {
        let edit = VmaEdit::new(self.mappings, guard);
        let Some(vma) = edit.at(part.start) else { return Ok(()) };
        let [prev, next] = edit.neighbours(&vma, part);
        let decided = change(prev, &vma, next, part, vma.flags.advised(advice));
        // As in Linux: lack of memory is EAGAIN here, and not ENOMEM as for mprotect.
        let again = |error| if error == Error::NoMemory { Error::Again } else { error };
        self.mappings.apply_change(edit, &decided, [prev, Some(vma), next], reserve).map_err(again)
    }

    /// MADV_FREE: the leaves become clean and their frames *lazyfree*, so that reclaim may drop them; a
    /// store makes them dirty again (`LockedTable::is_discardable`). Frames that other spaces may map
    /// stay. A huge leaf is marked as a whole; one that reaches beyond the range came after the caller has
    /// split at the ends.
    fn mark_free(&self, token: RangeToken<'_>, range: VpnRange) {
        self.entries.edit(token, range, |table, slot, page, gather| {
            let pages = VpnRange::new(page, page.add(table.level().entry_pages()));
            let is_whole = range.covers(pages) || mutant!("madvise.freed-beyond-range");
            if !table.is_exclusive(slot) || !is_whole {
                return;
            }
            if let Some((_, true)) = table.adjust(slot, cleaned) {
                gather.need_flush(pages);
            }
            if !mutant!("madvise.lazyfree-not-set") {
                table.set_lazyfree(slot, true);
            }
        });
    }
}

/// Linux skips holes, and reports them at the end.
fn unless_holes(all_mapped: bool) -> Result<(), Error> {
    if all_mapped { Ok(()) } else { Err(Error::NoMemory) }
}

fn cleaned(leaf: Leaf) -> Option<LeafBits> {
    leaf.dirty.then_some(LeafBits { dirty: false, accessed: false, ..LeafBits::of(leaf) })
}
