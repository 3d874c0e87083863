//! fork of mappings of the reserved pool: each page is shared as a whole, and copied by a store that comes
//! later.
//!
//! ```text
//!   parent's table   lock ─ leaf? ─ a leaf more, no right to write ─ cursor ─ unlock       then one flush
//!   child                            └──────────────────────────────► upper tables ─► lock ─ leaf ─ unlock
//!   pinned           lock ─ leaf? ─ no right to write ─ cursor ─ unlock ─ flush ─ copy ─► the child's leaf
//! ```
//!
//! Nothing is set aside for a child, as in Linux: its faults and copies are of what is available. What is
//! pinned stays the parent's; where the pool has no page for a copy of it, there is no child.

use crate::frame::{NotMappedAgain, PoolTake};
use crate::machine::{Entry, Machine, Marker};
use crate::space::fork_cursor::ForkUnderWay;
use crate::space::retry::PageRetry;
use crate::space::{AddressSpace, Counter, Error};
use crate::sync::{NoProgress, Progress};
use crate::table::{LeafBits, LockedTable, SharedHuge, walk};
use crate::tlb::Gather;
use crate::units::{Level, PageSize, Vpn, VpnRange};
use crate::vma::pages_of;

/// What the child gets of a page of the pool.
enum Passed<'m, M: Machine> {
    /// Nothing: the page has no memory.
    Nothing,
    /// The marker *lost*, which is here too.
    Lost,
    /// A mapping of the same folio.
    Shared(SharedHuge<'m, M>),
    /// A copy, once the fork has flushed; and whether the parent's leaf allowed stores.
    Copied { was_writable: bool },
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Shares all pages of a mapping that have memory with the child, which only the caller knows. A fork is
    /// under way, and its cursor passes the mapping. Adds the pages that are to be copied to the hull
    /// `copied`; their slots of the child are marked busy.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn fork_pool_mapping(
        &self,
        child: &Self,
        (range, size): (VpnRange, PageSize),
        fork: &ForkUnderWay<'_, M::Cpu>,
        gather: &mut Gather<'_, 'v, M>,
        copied: &mut VpnRange,
    ) -> Result<(), Error> {
        let mut page = range.start;
        while page < range.end {
            let pages = pages_of(size.order(), page);
            let (marker, was_writable) = match self.pass_pool_page(pages, fork)? {
                Passed::Nothing => (None, false),
                Passed::Lost => (Some(Marker::Lost), false),
                Passed::Copied { was_writable } => {
                    let start = if copied.is_empty() { page } else { copied.start };
                    *copied = VpnRange::new(start, pages.end);
                    (Some(Marker::Busy), was_writable)
                }
                Passed::Shared(shared) => {
                    let was_writable = shared.was_writable;
                    // Noted before anything fails: the parent's leaf has lost the right.
                    self.note_weakened(gather, pages, was_writable);
                    child.fill_above(page, size.level(), |above, slot| {
                        above.install_huge(slot, shared.folio, shared.bits);
                        Ok(())
                    })?;
                    (None, false)
                }
            };
            self.note_weakened(gather, pages, was_writable);
            if let Some(marker) = marker {
                child.fill_above(page, size.level(), |above, slot| {
                    above.mark_absent(slot, marker);
                    Ok(())
                })?;
            }
            page = pages.end;
        }
        Ok(())
    }

    fn note_weakened(&self, gather: &mut Gather<'_, 'v, M>, pages: VpnRange, was_writable: bool) {
        if was_writable && !mutant!("pool.fork-flush-skipped") {
            gather.weakened_leaf(pages);
        }
    }

    /// Takes the right to write from the leaf of a page, and passes it with the cursor, under one lock of the
    /// table.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: it is mapped too often, or its table is detached for good.
    fn pass_pool_page(
        &self,
        pages: VpnRange,
        fork: &ForkUnderWay<'_, M::Cpu>,
    ) -> Result<Passed<'_, M>, Error> {
        let mut retry = PageRetry::new("fork.pool");
        loop {
            let reading = self.vm.rcu.read();
            let found = walk(&self.table, pages.start, Level::Pte, &reading);
            let (slot, locked) = (found.slot, found.table.lock());
            drop(reading);
            // Else it was detached, or linked, since the walk.
            if let Some(mut table) = locked
                && !matches!(table.entry(slot), Entry::Table(_))
                && !retry.is_withheld()
            {
                let passed = pass_entry(&mut table, slot)?;
                if !mutant!("pool.fork-cursor-not-advanced") {
                    fork.advance(pages.end);
                }
                return Ok(passed);
            }
            let again = self.again_at(pages.start, &mut retry, Progress::None);
            again.map_err(|NoProgress| Error::NoMemory)?;
        }
    }

    /// Copies the parent's page to one of the child's, which is marked busy there. The flush of the fork is
    /// done, and the parent's page stays as it is until its end.
    ///
    /// # Errors
    /// [`Error::NoMemory`] where no page of the pool is available. One that is on its way back is not waited
    /// for: its holder may wait for the lock that this fork has.
    pub(super) fn copy_pool_page(&self, child: &Self, page: Vpn, size: PageSize) -> Result<(), Error> {
        let (leaf, from) = self.get_leaf(page).ok_or(Error::NoMemory)?;
        let vm = self.vm;
        let folio = vm.memory.try_take_from_pool(size, child.placement_of(page), PoolTake::Available);
        let mut copy = folio.map_err(|_| Error::NoMemory)?;
        copy.copy_from(from.user_frame(), vm.workers);
        let reading = vm.rcu.read();
        let found = walk(&child.table, page, size.level(), &reading);
        let mut table = found.table.lock().ok_or(Error::NoMemory)?;
        let is_there = table.install_from_pool(found.slot, copy, child.node.birth(page), LeafBits::of(leaf));
        debug_assert!(is_there, "only the caller knows the child, whose slot is busy");
        vm.count(Counter::CowCopied);
        Ok(())
    }
}

/// Takes from an entry what the child gets.
///
/// # Errors
/// [`Error::NoMemory`]: it is mapped too often.
fn pass_entry<'t, M: Machine>(table: &mut LockedTable<'t, M>, slot: usize) -> Result<Passed<'t, M>, Error> {
    match table.entry(slot) {
        Entry::Leaf(leaf) if leaf.owned() => match table.share_pool_leaf(slot) {
            Ok(Some(shared)) => Ok(Passed::Shared(shared)),
            // Pinned, perhaps.
            Ok(None) | Err(NotMappedAgain::Referenced) => {
                Ok(Passed::Copied { was_writable: table.take_write(slot) })
            }
            Err(NotMappedAgain::TooManyMappings) => Err(Error::NoMemory),
        },
        Entry::Marker(Marker::Lost) => Ok(Passed::Lost),
        _ => Ok(Passed::Nothing),
    }
}
