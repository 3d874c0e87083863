//! Page tables alone: map, unmap, protect and query of PFN-mapped frames, in tables of any format.
//!
//! A [`Mapper`] is for embedders that want tables and no address space: a hypervisor's second stage, an
//! IOMMU's tables, a kernel's own half. There are no mappings beside the tables, no faults, and no counts of
//! frames. It stands on the same floor as a space does: lockless walks, a lock for each table page, writers
//! that move a table at a time.
//!
//! ```text
//!   unsafe PfnMapFrames::new ──► map, protect        rights and frames are compared with those
//!                               unmap, query        nothing more to vouch for
//! ```
//!
//! # What the caller vouches for
//!
//! 1. The frames, where it makes [`PfnMapFrames`].
//! 2. The hardware that follows the tables, where it has a CPU, a guest or a device load the root
//!    ([`RootTable::new`](crate::machine::RootTable::new), or an instruction of its own): the function
//!    *flush* that the mapper was made with drops what *all* such hardware has cached of a range, upper
//!    levels too, before it returns, and none follows the root when the mapper is dropped.
//!
//! # Order
//!
//! Entries are cleared under the locks of their tables, then the flush runs, without a lock, and then tables
//! that have become empty are freed, once no lockless walk is in them: unhook, invalidate, free. When `unmap`
//! or `protect` returns, no hardware uses the old translation any more. Calls may run at once on several
//! CPUs; of two that overlap each page shows one.

use super::AccessedScan;
use super::pfnmap::check_frames;
use super::pfnmap_leaves::install_pfn_leaves;
use super::scan_parts::scan_in_parts;
use super::sweep::{SlotRun, detach_empty, sweep};
use super::{LeafBits, LockedTable, PageTable, PfnMapFrames, is_canonical, walk};
use super::{NoTranslation, NoteUse, StaleTranslation, translate_access};
use crate::frame::{GatherBatch, Memory, Priority, Unhooked};
use crate::machine::{Entry, Format, Leaf, Machine};
use crate::sync::Rcu;
use crate::units::{Access, Level, PAGE_SHIFT, PageSize, Pfn, PfnRange, Rights, Vpn, VpnRange};
use core::fmt;

/// Page tables of PFN-mapped frames. Dropping it frees the tables.
pub struct Mapper<'m, M: Machine, F: Fn(VpnRange)> {
    memory: &'m Memory<'m, M>,
    rcu: &'m Rcu<'m, M::Cpu>,
    tree: PageTable<'m, M>,
    flush: F,
}

/// Why a call on a [`Mapper`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// No frame for a table. Nothing has changed.
    NoMemory,
    /// Something is mapped there. Nothing has changed.
    AlreadyMapped,
    /// Pages or frames do not start and end at multiples of the page size. Nothing has changed.
    Misaligned,
    /// The format does not translate all of the pages. Nothing has changed.
    OutOfRange,
    /// The format has no entry for that: a frame beyond its addresses, a right without that to read, a page
    /// size, a guest's page that is not [`Rights::USER`]. Nothing has changed.
    Unencodable,
    /// The frames, or the rights, are more than the [`PfnMapFrames`] allow. Where pages in use are protected,
    /// those that they allow have changed.
    NotAllowed,
    /// The range starts or ends inside of a larger page, which is left as it is; pages beside it have
    /// changed.
    PartOfPage,
}

impl<'m, M: Machine, F: Fn(VpnRange)> Mapper<'m, M, F> {
    /// Empty tables. `flush` is called with pages that were unmapped or protected, and those of tables that
    /// are freed; it drops what hardware has cached of them, and holds nothing that a call on the mapper
    /// waits for. `None` where there is no memory for a root.
    pub fn new(memory: &'m Memory<'m, M>, rcu: &'m Rcu<'m, M::Cpu>, flush: F) -> Option<Self> {
        let root = memory.alloc_table(Priority::Normal)?;
        Some(Self { memory, rcu, tree: PageTable::of_mapper(memory, root, rcu), flush })
    }

    /// The tables, for tests.
    #[cfg(all(test, not(loom)))]
    pub(super) fn tree(&self) -> &PageTable<'m, M> {
        &self.tree
    }

    /// The frame of the root. The module says what loads it.
    pub fn root(&self) -> Pfn {
        self.tree.root()
    }

    /// Maps `frames`, of `pfnmap`, from page `at` on, by pages of one size, with these rights and the
    /// cache type of `pfnmap`. Marked as used, so that no walker has to write the entries. Nothing is
    /// flushed: where a TLB may remember that nothing was there
    /// ([`Format::REMEMBERS_REFUSALS`](crate::machine::Format::REMEMBERS_REFUSALS)), an access to what is new
    /// may fault until the page is flushed on that CPU.
    ///
    /// # Errors
    /// As [`MapError`] says. What was mapped before an error is unmapped again.
    pub fn map(
        &self,
        at: Vpn,
        pfnmap: &PfnMapFrames,
        frames: PfnRange,
        size: PageSize,
        rights: Rights,
    ) -> Result<(), MapError> {
        let pages = VpnRange { start: at, end: Vpn(at.0.saturating_add(frames.len())) };
        let bits = LeafBits { cache: pfnmap.cache(), ..LeafBits::new(rights).used(true) };
        check_pages::<M::Format>(pages)?;
        check_frames::<M::Format>(pfnmap, frames, size, bits)?;
        if !(at.0 | frames.start.0 | frames.len()).is_multiple_of(size.pages()) {
            return Err(MapError::Misaligned);
        }
        let mut mapped = VpnRange { start: at, end: at };
        // All is aligned, so every leaf is of that size.
        let alloc = || self.memory.alloc_table(Priority::Normal);
        let result = install_pfn_leaves(&self.tree, pages, frames.start, (bits, size), &mut mapped, alloc);
        if result.is_err() && !mapped.is_empty() && !mutant!("mapper.failed-left-mapped") {
            // Ours alone: each slot was absent before.
            let _ = self.unmap(mapped);
        }
        result
    }

    /// Unmaps all of the pages that are mapped, flushes, and frees the tables that have become empty. Returns
    /// the number of base pages that were mapped.
    ///
    /// # Errors
    /// [`MapError::OutOfRange`], [`MapError::PartOfPage`].
    pub fn unmap(&self, pages: VpnRange) -> Result<u64, MapError> {
        check_pages::<M::Format>(pages)?;
        let (mut batch, mut span, mut nr, mut result) = (GatherBatch::default(), pages, 0, Ok(()));
        sweep(&self.tree, pages, |mut run: SlotRun<'_, '_, M>| {
            if !run.is_whole(pages) {
                result = Err(MapError::PartOfPage);
                return;
            }
            run.each_used(|table, slot, page| {
                let is_leaf = matches!(table.entry(slot), Entry::Leaf(_));
                nr += if is_leaf { table.level().entry_pages() } else { 0 };
                // Nothing to free: the frames are PFN-mapped.
                let _translation = table.unhook(slot, page);
            });
            run.table.note_absent(run.slots);
        });
        detach_empty(&self.tree, pages, |table, covered| {
            span = VpnRange::new(span.start.min(covered.start), span.end.max(covered.end));
            batch.add(self.memory, Unhooked::table(covered, table));
        });
        batch.free_after(self.memory, self.rcu, || {
            if !mutant!("mapper.unmap-flush-skipped") {
                (self.flush)(span);
            }
        });
        result.map(|()| nr)
    }

    /// Gives the pages that are mapped and belong to `pfnmap` these rights, and flushes. Pages without a
    /// leaf are passed over. Accessed and dirty bits stay.
    ///
    /// # Errors
    /// [`MapError::OutOfRange`], [`MapError::Unencodable`], [`MapError::PartOfPage`], and
    /// [`MapError::NotAllowed`], where the range holds pages of other frames, which stay as they are.
    pub fn protect(&self, pages: VpnRange, rights: Rights, pfnmap: &PfnMapFrames) -> Result<(), MapError> {
        check_pages::<M::Format>(pages)?;
        let mut result = Ok(());
        sweep(&self.tree, pages, |mut run: SlotRun<'_, '_, M>| {
            if !run.is_whole(pages) {
                result = Err(MapError::PartOfPage);
                return;
            }
            run.each_used(|table, slot, _| {
                if let Err(error) = protect_leaf(table, slot, rights, pfnmap) {
                    result = Err(error);
                }
            });
        });
        if !mutant!("mapper.protect-flush-skipped") {
            (self.flush)(pages);
        }
        result
    }

    /// The leaf that maps the page, and its size, whose first frame the leaf names. Takes no lock; stale at
    /// once.
    pub fn query(&self, page: Vpn) -> Option<(Leaf, PageSize)> {
        if !is_canonical::<M::Format>(page) {
            return None;
        }
        let reading = self.rcu.read();
        let found = walk(&self.tree, page, Level::Pte, &reading);
        let Entry::Leaf(leaf) = found.entry() else { return None };
        Some((leaf, found.table.level().leaf_size()?))
    }
}

/// Walkers.
impl<M: Machine, F: Fn(VpnRange)> Mapper<'_, M, F> {
    /// What an access of the page is translated to, as the hardware that follows the tables would: for an
    /// emulator. Sets accessed and dirty bits where `note` says so. Takes no lock; stale at once.
    ///
    /// # Errors
    /// [`NoTranslation`].
    pub fn translate_access(
        &self,
        page: Vpn,
        access: Access,
        note: NoteUse,
    ) -> Result<StaleTranslation, NoTranslation> {
        translate_access(&self.tree, page, access, note, &self.rcu.read())
    }

    /// Clears the accessed bit of each leaf of the pages that has it set, and calls `visit` with the pages of
    /// such a leaf, and the leaf as it was. Takes no lock, and does not flush: hardware that has a page
    /// cached sets the bit again only once it has dropped it. Nothing is held while `visit` is called, so it
    /// may call the mapper.
    ///
    /// # Errors
    /// [`MapError::OutOfRange`].
    pub fn scan_accessed(
        &self,
        pages: VpnRange,
        visit: impl FnMut(VpnRange, Leaf),
    ) -> Result<AccessedScan, MapError> {
        check_pages::<M::Format>(pages)?;
        Ok(scan_in_parts(&self.tree, pages, self.rcu, visit))
    }
}

/// Changes the rights of a leaf of a PFN mapping.
fn protect_leaf<M: Machine>(
    table: &mut LockedTable<'_, M>,
    slot: usize,
    rights: Rights,
    pfnmap: &PfnMapFrames,
) -> Result<(), MapError> {
    let Entry::Leaf(leaf) = table.entry(slot) else { return Ok(()) };
    let size = table.level().leaf_size().ok_or(MapError::NotAllowed)?;
    let frames = PfnRange::new(leaf.pfn, leaf.pfn.add(size.pages()));
    check_frames::<M::Format>(pfnmap, frames, size, LeafBits { rights, ..LeafBits::of(leaf) })?;
    table.adjust_unbounded(slot, |leaf| Some(LeafBits { rights, ..LeafBits::of(leaf) }));
    Ok(())
}

/// Checks that the format translates every page of the range, which is all in one half.
fn check_pages<F: Format>(pages: VpnRange) -> Result<(), MapError> {
    let half = 1 << (F::ADDRESS_BITS - 1 - PAGE_SHIFT);
    let last = Vpn(pages.end.0.wrapping_sub(1));
    let is_one_half = !F::SIGN_EXTENDED || pages.start.0 & half == last.0 & half;
    let is_inside = is_canonical::<F>(pages.start) && is_canonical::<F>(last) && is_one_half;
    if !pages.is_empty() && is_inside { Ok(()) } else { Err(MapError::OutOfRange) }
}

impl<M: Machine, F: Fn(VpnRange)> Drop for Mapper<'_, M, F> {
    /// Frees the tables, and nothing that they map.
    fn drop(&mut self) {
        let half = 1 << (M::Format::ADDRESS_BITS - 1 - PAGE_SHIFT);
        let upper = if M::Format::SIGN_EXTENDED { (1 << (64 - PAGE_SHIFT)) - half } else { half };
        for start in [Vpn(0), Vpn(upper)] {
            // Neither range is refused, and no page is cut.
            let _ = self.unmap(VpnRange { start, end: start.add(half) });
        }
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MapError::NoMemory => "no memory for a table",
            MapError::AlreadyMapped => "something is mapped there",
            MapError::Misaligned => "not a multiple of the page size",
            MapError::OutOfRange => "pages that the format does not translate",
            MapError::Unencodable => "the format has no such entry",
            MapError::NotAllowed => "more than the frames allow",
            MapError::PartOfPage => "the range cuts a larger page",
        })
    }
}

impl core::error::Error for MapError {}

impl<M: Machine, F: Fn(VpnRange)> fmt::Debug for Mapper<'_, M, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mapper of {:?}", self.tree)
    }
}
