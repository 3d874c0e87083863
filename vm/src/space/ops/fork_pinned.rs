//! fork of pages that are not shared, because their frames are pinned or of the hugetlb pool: the child gets
//! copies, made after the flush.
//!
//! The sweep has marked their slots in the child as busy, and taken the right to write from the parent's
//! entries. No CPU writes these pages until the fork has ended, so the copies belong to the same instant as
//! what is shared (docs/design/pins.md).

use crate::frame::{AllocRequest, Frame, HugetlbTake};
use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::{AddressSpace, Counter, Error};
use crate::table::{LeafBits, SlotMarker, visit_next, walk};
use crate::units::{Level, PageSize, Vpn, VpnRange};

/// Copying what a fork has not shared to the child, which only the caller knows. The fork is under way, and
/// its flush is done.
pub(super) struct ForkCopies<'a, 'v, M: Machine> {
    /// The entries of the parent.
    pub parent: &'a Entries<'v, M>,
    pub child: &'a AddressSpace<'v, M>,
}

impl<'v, M: Machine> ForkCopies<'_, 'v, M> {
    /// Copies the parent's frame to each page of `range` that is marked busy in the child.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn run(&self, range: VpnRange) -> Result<(), Error> {
        let child = self.child;
        let mut rest = range;
        while !rest.is_empty() {
            let Some((end, busy)) = visit_next(&child.entries.table, rest, |table, part| {
                let (level, pages) = (table.level(), table.level().entry_pages());
                let first = level.index(part.start);
                let mut slots = first..first + part.len().div_ceil(pages) as usize;
                let is_busy = |slot: &usize| table.entry(*slot) == SlotMarker::Busy.entry();
                let busy = slots.find(is_busy)?;
                Some((Vpn(part.start.0 & !(pages - 1)).add((busy - first) as u64 * pages), level))
            }) else {
                // No table is linked to a child, or detached, meanwhile: a huge leaf, of which none is busy.
                rest.start = self.end_of_huge_leaf(rest.start);
                continue;
            };
            rest.start = match busy {
                Some((page, Level::Pte)) => {
                    self.base_page(page)?;
                    page.add(1)
                }
                Some((page, level)) => {
                    let size = level.leaf_size().ok_or(Error::NoMemory)?;
                    self.hugetlb_page(page, size)?;
                    page.add(size.pages())
                }
                None => end,
            };
        }
        Ok(())
    }

    /// The page after the huge leaf of the child that holds `page`; the page itself where none does.
    fn end_of_huge_leaf(&self, page: Vpn) -> Vpn {
        let reading = self.parent.vm.rcu.read();
        let level = self.child.entries.huge_entry(page, &reading).map(|found| found.table.level());
        let pages = level.map(|level| level.entry_pages());
        pages.map_or(page, |pages| Vpn((page.0 & !(pages - 1)) + pages))
    }

    fn base_page(&self, page: Vpn) -> Result<(), Error> {
        let Self { parent, child } = self;
        // A page that a fork has swept stays until its end: refused where no more references can be counted.
        let (leaf, frame) = parent.get_leaf(page).ok_or(Error::NoMemory)?;
        let vm = parent.vm;
        let placement = child.mappings.placement_of(page);
        let alloc = || vm.memory.alloc_frame_from(placement, AllocRequest::DIRTY);
        let copy: Option<Frame<'v, M>> = vm.retry_after_trim(alloc);
        let mut copy = copy.ok_or(Error::NoMemory)?;
        copy.copy_from(frame.user_frame());
        let reading = vm.rcu.read();
        let found = walk(&child.entries.table, page, Level::Pte, &reading);
        let locked = found.table.lock();
        let mut table = locked.ok_or(Error::NoMemory)?;
        debug_assert_eq!(
            table.entry(found.slot),
            SlotMarker::Busy.entry(),
            "only the caller knows the child"
        );
        table.install(found.slot, copy.into_mapped_at(child.node.anon_key(page)), LeafBits::of(leaf));
        vm.count(Counter::CowCopied);
        Ok(())
    }

    /// As [`base_page`](Self::base_page), of a hugetlb page.
    fn hugetlb_page(&self, page: Vpn, size: PageSize) -> Result<(), Error> {
        let Self { parent, child } = self;
        let (leaf, from) = parent.get_leaf(page).ok_or(Error::NoMemory)?;
        let vm = parent.vm;
        let folio =
            vm.memory.hugetlb().try_take(size, child.mappings.placement_of(page), HugetlbTake::Available);
        let mut copy = folio.map_err(|_| Error::NoMemory)?;
        copy.copy_from(from.user_frame(), vm.workers);
        let reading = vm.rcu.read();
        let found = walk(&child.entries.table, page, size.level(), &reading);
        let mut table = found.table.lock().ok_or(Error::NoMemory)?;
        table.install(found.slot, copy.into_mapped_at(child.node.anon_key(page)), LeafBits::of(leaf));
        vm.count(Counter::CowCopied);
        Ok(())
    }
}
