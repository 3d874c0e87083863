//! fork of pages that are not shared, because their frames are pinned or of the reserved pool: the child gets
//! copies, made after the flush.
//!
//! The sweep has marked their slots in the child as busy, and taken the right to write from the parent's
//! entries. No CPU writes these pages until the fork has ended, so the copies belong to the same instant as
//! what is shared (docs/design/pins.md).

use crate::frame::{AllocRequest, Frame, FramePlacement, FrameRef, PoolTake};
use crate::machine::{Entry, Leaf, Machine, Marker};
use crate::space::{AddressSpace, Counter, Error};
use crate::table::{LeafBits, visit_next, walk};
use crate::units::{Level, PageSize, Vpn, VpnRange};
use crate::vma::Vma;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Copies the parent's frame to each page of `range` that is marked busy in the child, which only the
    /// caller knows. A fork of this space is under way, and its flush is done.
    pub(super) fn copy_busy_to(&self, child: &Self, range: VpnRange) -> Result<(), Error> {
        let mut rest = range;
        while !rest.is_empty() {
            let Some((end, busy)) = visit_next(&child.entries.table, rest, |table, part| {
                let (level, pages) = (table.level(), table.level().entry_pages());
                let first = level.index(part.start);
                let mut slots = first..first + part.len().div_ceil(pages) as usize;
                let is_busy = |slot: &usize| table.entry(*slot) == Entry::Marker(Marker::Busy);
                let busy = slots.find(is_busy)?;
                Some((Vpn(part.start.0 & !(pages - 1)).add((busy - first) as u64 * pages), level))
            }) else {
                // No table is linked to a child, or detached, meanwhile: a huge leaf, of which none is busy.
                rest.start = child.end_of_huge_leaf(rest.start);
                continue;
            };
            rest.start = match busy {
                Some((page, Level::Pte)) => {
                    self.copy_pinned_page(child, page)?;
                    page.add(1)
                }
                Some((page, level)) => {
                    let size = level.leaf_size().ok_or(Error::NoMemory)?;
                    self.copy_pool_page(child, page, size)?;
                    page.add(size.pages())
                }
                None => end,
            };
        }
        Ok(())
    }

    /// The page after the huge leaf that holds `page`; the page itself where none does.
    fn end_of_huge_leaf(&self, page: Vpn) -> Vpn {
        let reading = self.vm.rcu.read();
        let level = self.huge_entry(page, &reading).map(|found| found.table.level());
        let pages = level.map(|level| level.entry_pages());
        pages.map_or(page, |pages| Vpn((page.0 & !(pages - 1)) + pages))
    }

    fn copy_pinned_page(&self, child: &Self, page: Vpn) -> Result<(), Error> {
        // A page that a fork has swept stays until its end: refused where no more references can be counted.
        let (leaf, frame) = self.get_leaf(page).ok_or(Error::NoMemory)?;
        let vm = self.vm;
        let placement = child.placement_of(page);
        let alloc = || vm.memory.alloc_frame_from(placement, AllocRequest::DIRTY);
        let copy: Option<Frame<'v, M>> = vm.or_reclaim(alloc);
        let mut copy = copy.ok_or(Error::NoMemory)?;
        copy.copy_from(frame.user_frame());
        let reading = vm.rcu.read();
        let found = walk(&child.entries.table, page, Level::Pte, &reading);
        let locked = found.table.lock();
        let mut table = locked.ok_or(Error::NoMemory)?;
        debug_assert_eq!(
            table.entry(found.slot),
            Entry::Marker(Marker::Busy),
            "only the caller knows the child"
        );
        table.install(found.slot, copy.into_mapped_at(child.node.birth(page)), LeafBits::of(leaf));
        vm.count(Counter::CowCopied);
        Ok(())
    }

    /// As [`copy_pinned_page`](Self::copy_pinned_page), of a hugetlb page.
    fn copy_pool_page(&self, child: &Self, page: Vpn, size: PageSize) -> Result<(), Error> {
        let (leaf, from) = self.get_leaf(page).ok_or(Error::NoMemory)?;
        let vm = self.vm;
        let folio = vm.memory.try_take_from_pool(size, child.placement_of(page), PoolTake::Available);
        let mut copy = folio.map_err(|_| Error::NoMemory)?;
        copy.copy_from(from.user_frame(), vm.workers);
        let reading = vm.rcu.read();
        let found = walk(&child.entries.table, page, size.level(), &reading);
        let mut table = found.table.lock().ok_or(Error::NoMemory)?;
        table.install(found.slot, copy.into_mapped_at(child.node.birth(page)), LeafBits::of(leaf));
        vm.count(Counter::CowCopied);
        Ok(())
    }

    /// Where the policy of the page's mapping wants its frame.
    pub(super) fn placement_of(&self, page: Vpn) -> FramePlacement {
        let reading = self.vm.rcu.read();
        let found = self.vmas.find(&reading, page).filter(|vma| !vma.policy().is_default());
        let placement =
            |vma: &Vma<M::Cpu>| vma.policy().placement(vma.frame_offset(page), self.vm.populated_nodes());
        found.map_or(FramePlacement::Local, placement)
    }

    /// The leaf of a page, and a reference to its frame.
    pub(super) fn get_leaf(&self, page: Vpn) -> Option<(Leaf, FrameRef<'v, M>)> {
        let reading = self.vm.rcu.read();
        let found = walk(&self.entries.table, page, Level::Pte, &reading);
        let table = found.table.lock()?;
        let leaf = table.owned_leaf(found.slot)?;
        Some((leaf, self.vm.memory.try_get(leaf.pfn)?))
    }
}
