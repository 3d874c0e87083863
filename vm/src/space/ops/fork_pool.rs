//! fork of mappings of the reserved pool: the child gets copies, made after the flush.
//!
//! ```text
//!   parent's leaf   the right to write is taken, the cursor passes ─┐          ┌─ copied ─► a leaf
//!   child's slot    Busy                                           flush ──────┴─ pool empty ─► Lost
//! ```
//!
//! Nothing is set aside for a child, as in Linux: its copies are of what is available. Linux shares the page
//! until one of the two writes; then the parent, for which no page is set aside any more either, takes it
//! from the child where the pool has none, and the child's next access is a bus error. Here that is decided
//! at the fork: no write of the parent ever lacks a page, or has to look for its children.

use crate::frame::PoolTake;
use crate::machine::{Entry, Machine, Marker};
use crate::space::fork_cursor::ForkUnderWay;
use crate::space::{AddressSpace, Counter, Error};
use crate::table::{LeafBits, walk};
use crate::tlb::Gather;
use crate::units::{Level, PageSize, Vpn, VpnRange};
use crate::vma::pages_of;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Marks the slots of the child, which only the caller knows, for all pages of a mapping that have memory
    /// here: as busy, or as lost where they are here. A fork is under way, and its cursor passes the mapping.
    /// Adds the pages that are busy to the hull `copied`.
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
            if let Some(marker) = self.pass_pool_page(pages, fork, gather) {
                child.fill_above(page, size.level(), |above, slot| {
                    above.mark_absent(slot, marker);
                    Ok(())
                })?;
                if marker == Marker::Busy {
                    let start = if copied.is_empty() { page } else { copied.start };
                    *copied = VpnRange::new(start, pages.end);
                }
            }
            page = pages.end;
        }
        Ok(())
    }

    /// Takes the right to write from the leaf of a page, and passes it with the cursor, under one lock of the
    /// table. Returns the marker for the child; `None` where the page has no memory.
    fn pass_pool_page(
        &self,
        pages: VpnRange,
        fork: &ForkUnderWay<'_, M::Cpu>,
        gather: &mut Gather<'_, 'v, M>,
    ) -> Option<Marker> {
        loop {
            let reading = self.vm.rcu.read();
            let found = walk(&self.table, pages.start, Level::Pte, &reading);
            let (slot, locked) = (found.slot, found.table.lock());
            drop(reading);
            let Some(table) = locked else { continue };
            let entry = table.entry(slot);
            // Linked since the walk.
            if matches!(entry, Entry::Table(_)) {
                continue;
            }
            fork.advance(pages.end);
            return match entry {
                Entry::Leaf(leaf) if leaf.owned() => {
                    if table.take_write(slot) && !mutant!("pool.fork-flush-skipped") {
                        gather.weakened(pages);
                    }
                    Some(Marker::Busy)
                }
                Entry::Marker(Marker::Lost) => Some(Marker::Lost),
                _ => None,
            };
        }
    }

    /// Copies the parent's page to one of the child's, which is marked busy there. The flush of the fork is
    /// done, and the parent's page stays as it is until its end.
    pub(super) fn copy_pool_page(&self, child: &Self, page: Vpn, size: PageSize) -> Result<(), Error> {
        let (leaf, from) = self.get_leaf(page).ok_or(Error::NoMemory)?;
        let vm = self.vm;
        // A page that is on its way back is not waited for: its holder may wait for the lock that this fork
        // has.
        let folio = vm.memory.try_take_from_pool(size, child.placement_of(page), PoolTake::Available);
        let mut copy = folio.ok().inspect(|_| vm.count(Counter::CowCopied));
        if let Some(copy) = &mut copy {
            copy.copy_from(from.user_frame(), vm.workers);
        }
        let reading = vm.rcu.read();
        let found = walk(&child.table, page, size.level(), &reading);
        let mut table = found.table.lock().ok_or(Error::NoMemory)?;
        debug_assert_eq!(
            table.entry(found.slot),
            Entry::Marker(Marker::Busy),
            "only the caller knows the child"
        );
        match copy {
            Some(copy) => {
                table.install_from_pool(found.slot, copy, child.node.birth(page), LeafBits::of(leaf));
            }
            None => {
                let lost = if mutant!("pool.lost-page-absent") { None } else { Some(Marker::Lost) };
                table.replace_busy_mark(found.slot, lost);
            }
        }
        Ok(())
    }
}
