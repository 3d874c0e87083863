//! Collapse: base pages become a huge page (MADV_COLLAPSE, khugepaged).
//!
//! ```text
//!   look      mapping, entries: worth it?                        no lock
//!   allocate  a folio                                            no lock
//!   freeze    frames shared, no right to write ─► flush          the space's lock, as a fork has it;
//!                                                                the table, a part at a time
//!   copy      what was frozen, eight pages at a time             the same, but no table; readers of memory
//!                                                                go on
//!             ▲── again, where a fault took a page meanwhile
//!   replace   flush, huge leaf                                   the same; both tables
//!   free      512 frames and a table                             no lock
//! ```
//!
//! The space's lock is held as by a fork: to write for a moment, then to read. So other writers wait, and
//! MADV_DONTNEED and MADV_FREE; faults go on, with and without the lock. A fault in the region that finds a
//! page frozen gives the right back, and its page is copied again; it waits for the table while a few pages
//! are frozen, and at the end for one flush. docs/design/huge-pages.md says why nothing is lost.

use crate::frame::{AnonKey, PartialFolio};
use crate::machine::{Entry, FlushRange, Machine};
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, PublishedGuard};
use crate::space::fork_cursor::CollapseUnderWay;
use crate::space::rmap::SpaceNode;
use crate::space::{AddressSpace, Counter, Error};
use crate::table::{CollapsedTable, LeafBits, LeafCounts, LockedTable, NotFrozen, walk};
use crate::units::{Level, Order, VirtAddr, Vpn, VpnRange};
use crate::vma::{CollapseLimits, CollapseRefusal, RegionCounts, Requester, VmaAttributes};
use crate::vma::{may_collapse, pages_of, refuse_counts};

/// Pages that are frozen under one lock of their table, which faults of the region wait for.
const FROZEN_AT_ONCE: usize = if cfg!(loom) { Level::ENTRIES } else { 16 };
/// Pages whose frames are held, and copied: a store to one of them meanwhile has to copy.
const COPIED_AT_ONCE: usize = if cfg!(loom) { 2 } else { 8 };
/// How often pages that faults take meanwhile are copied again, before a collapse gives up. Few where tests
/// are to see both results.
const ROUNDS: usize = if cfg!(any(loom, debug_assertions)) { 4 } else { 16 };

/// How a region has become a huge page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collapsed {
    /// Its pages were copied.
    Copied,
    /// It was one, or was mapped by the huge zero page.
    Already,
}

/// A region's table of base pages, and the one above it with its slot, locked.
struct LockedRegion<'t, M: Machine> {
    parent: LockedTable<'t, M>,
    slot: usize,
    child: LockedTable<'t, M>,
}

/// What a region is mapped by.
enum RegionEntry {
    /// A huge page, or that of zeros.
    Huge,
    /// A table of base pages.
    Table(LeafCounts),
    /// Anything else.
    Nothing,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Makes huge pages of all aligned regions of 2 MiB that lie in the range, mapping by mapping, whatever
    /// the policy (MADV_COLLAPSE). A region that cannot be collapsed now does not keep the others from it.
    /// Locks one region at a time.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unaligned start or a range that wraps, for a mapping that is not private
    /// memory, refuses huge pages or holds no region, and where a region holds no memory;
    /// [`Error::NoMemory`] where no block is free, or, at the end, where there were holes;
    /// [`Error::Again`] where pages are pinned or busy. (Errors as of `madvise_collapse_errno` in Linux.)
    pub fn collapse(&self, addr: VirtAddr, len_bytes: u64) -> Result<(), Error> {
        let range = VpnRange::from_bytes(addr, len_bytes).ok_or(Error::Invalid)?;
        if range.is_empty() {
            return if len_bytes == 0 { Ok(()) } else { Err(Error::Invalid) };
        }
        let collapser = self.collapser(Requester::Program, &CollapseLimits::NONE);
        let (mut rest, mut is_hole) = (range, false);
        while !rest.is_empty() {
            let Some(vma) = self.mappings.first_in_racy(rest) else { return Err(Error::NoMemory) };
            let part = rest.intersect(vma.range);
            is_hole |= part.start > rest.start;
            collapser.part(&vma, part)?;
            rest.start = part.end;
        }
        if is_hole { Err(Error::NoMemory) } else { Ok(()) }
    }

    /// Makes a huge page of the region that holds `page`.
    ///
    /// # Errors
    /// Why not. No contents have changed; stores to pages of the region may fault once more.
    pub fn collapse_region(
        &self,
        page: Vpn,
        requester: Requester,
        limits: &CollapseLimits,
    ) -> Result<Collapsed, CollapseRefusal> {
        let region = pages_of(Order::HUGE, page);
        let vma = self.mappings.first_in_racy(region).ok_or(CollapseRefusal::Mapping)?;
        self.collapser(requester, limits).region(&vma, page)
    }

    pub(super) fn collapser<'a>(
        &'a self,
        requester: Requester,
        limits: &'a CollapseLimits,
    ) -> Collapser<'a, 'v, M> {
        let Self { mappings, entries, node, .. } = self;
        Collapser { mappings, entries, node, requester, limits }
    }
}

/// What a collapse is asked for, and of which space.
pub(super) struct Collapser<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
    node: &'a SpaceNode<'v, M>,
    requester: Requester,
    limits: &'a CollapseLimits,
}

impl<'v, M: Machine> Collapser<'_, 'v, M> {
    /// Collapses the regions of a part of a mapping.
    fn part(&self, vma: &VmaAttributes, part: VpnRange) -> Result<(), Error> {
        if !vma.may_be_collapsed(self.mappings.thp_disable()) {
            return Err(Error::Invalid);
        }
        let size = Order::HUGE.frames();
        let mut page = Vpn(part.start.0.next_multiple_of(size));
        let end = Vpn(part.end.0 & !(size - 1));
        // As Linux: nothing to do where the part touches the border of a region, an error inside of one.
        let mut result = if page > end { Err(Error::Invalid) } else { Ok(()) };
        while page < end {
            let region = pages_of(Order::HUGE, page);
            let now = self.mappings.first_in_racy(region).ok_or(CollapseRefusal::Mapping);
            match now.and_then(|vma| self.region(&vma, page)) {
                Ok(_) => {}
                Err(CollapseRefusal::NoMemory) => return Err(Error::NoMemory),
                Err(CollapseRefusal::Mapping) => return Err(Error::Invalid),
                Err(CollapseRefusal::Referenced | CollapseRefusal::Busy) => result = Err(Error::Again),
                Err(_) => result = Err(Error::Invalid),
            }
            page = page.add(size);
        }
        result
    }

    /// Makes a huge page of the region that holds `page`, in a mapping that was there a moment ago.
    pub fn region(&self, vma: &VmaAttributes, page: Vpn) -> Result<Collapsed, CollapseRefusal> {
        let region = pages_of(Order::HUGE, page);
        self.check_mapping(vma, region)?;
        match self.entries.region_entry(region) {
            RegionEntry::Huge => return Ok(Collapsed::Already),
            RegionEntry::Nothing => return Err(CollapseRefusal::Empty),
            RegionEntry::Table(leaves) => check_counts(leaves, self.limits)?,
        }
        let folio = self.allocate(vma, region)?;
        self.lock_and_collapse(region, folio).map(|()| Collapsed::Copied)
    }

    fn check_mapping(&self, vma: &VmaAttributes, region: VpnRange) -> Result<(), CollapseRefusal> {
        let policy = (self.entries.vm.huge_policy, self.mappings.thp_disable());
        let may = vma.range.covers(region) && may_collapse(self.requester, policy, vma, region.start);
        if may { Ok(()) } else { Err(CollapseRefusal::Mapping) }
    }

    fn allocate(
        &self,
        vma: &VmaAttributes,
        region: VpnRange,
    ) -> Result<PartialFolio<'v, M>, CollapseRefusal> {
        let vm = self.entries.vm;
        let placement = vma.policy.placement(vma.offset_at(region.start), vm.populated_nodes());
        let folio = vm.memory.alloc_folio(placement, Order::HUGE);
        let counter =
            if folio.is_some() { Counter::ThpCollapseAlloc } else { Counter::ThpCollapseAllocFailed };
        vm.count(counter);
        folio.map(PartialFolio::new).ok_or(CollapseRefusal::NoMemory)
    }

    /// Locks the region, copies its pages into the folio, and maps that.
    fn lock_and_collapse(&self, region: VpnRange, folio: PartialFolio<'v, M>) -> Result<(), CollapseRefusal> {
        let Self { mappings, entries, .. } = *self;
        let guard = mappings.write(region);
        let vma = mappings.first_in(guard.token(), region).ok_or(CollapseRefusal::Mapping)?;
        self.check_mapping(&vma, region)?;
        entries.note_huge_leaves();
        let under_way = entries.fork.begin_collapse(region);
        let guard = mappings.published(entries, guard, region);
        let leaf = (self.node.anon_key(region.start), LeafBits::new(vma.rights()).used(true));
        let collapse = Collapse { entries, region, folio, under_way };
        let replaced = entries.recount(region, self.limits).and_then(|()| collapse.run(&guard, leaf));
        drop(guard);
        replaced?.free(&entries.vm.memory, &entries.vm.rcu, region);
        Ok(())
    }
}

impl<M: Machine> Entries<'_, M> {
    /// What maps the region. Takes no lock; stale at once.
    fn region_entry(&self, region: VpnRange) -> RegionEntry {
        let reading = self.vm.rcu.read();
        let found = walk(&self.table, region.start, Level::Pmd, &reading);
        match found.entry() {
            _ if found.table.level() != Level::Pmd => RegionEntry::Nothing,
            Entry::Leaf(leaf) if leaf.owned() => RegionEntry::Huge,
            Entry::Leaf(leaf)
                if self.table.is_huge_zero(leaf, Level::Pmd) && !mutant!("collapse.zeros-refused") =>
            {
                RegionEntry::Huge
            }
            Entry::Table(_) => match found.table.child(found.slot, &reading) {
                Some(child) => RegionEntry::Table(child.count_leaves()),
                None => RegionEntry::Nothing,
            },
            _ => RegionEntry::Nothing,
        }
    }

    /// Looks once more at what the region holds. Only faults change that now.
    fn recount(&self, region: VpnRange, limits: &CollapseLimits) -> Result<(), CollapseRefusal> {
        match self.region_entry(region) {
            RegionEntry::Table(leaves) => check_counts(leaves, limits),
            _ => Err(CollapseRefusal::Busy),
        }
    }
}

/// A region that becomes a huge page, whose mapping stays as it is meanwhile.
struct Collapse<'a, 'v, M: Machine> {
    entries: &'a Entries<'v, M>,
    region: VpnRange,
    folio: PartialFolio<'v, M>,
    /// Ends with this, before the caller's guard.
    under_way: CollapseUnderWay<'a, M::Cpu>,
}

impl<'a, M: Machine> Collapse<'a, '_, M> {
    /// Copies the pages of the region into the folio, again where faults take some meanwhile, and maps it as
    /// `leaf` says. Returns the table that it replaces.
    fn run(
        mut self,
        guard: &PublishedGuard<'_, M>,
        leaf: (AnonKey, LeafBits),
    ) -> Result<CollapsedTable<'a, M>, CollapseRefusal> {
        for _ in 0..ROUNDS {
            self.copy_round(guard)?;
            if let Some(tables) = self.lock_copied()? {
                return self.replace(tables, leaf);
            }
        }
        Err(CollapseRefusal::Busy)
    }

    /// Makes the frames of the region shared, flushes the rights to write, copies what has no good copy, and
    /// zeroes the rest of the folio.
    fn copy_round(&mut self, guard: &PublishedGuard<'_, M>) -> Result<(), CollapseRefusal> {
        self.under_way.forget_taken();
        let (entries, region) = (self.entries, self.region);
        let mut result = Ok(());
        entries.gather_pending(guard.token(), guard.pending(), region, |gather| {
            let mut needs_flush = false;
            let mut parts = (0..Level::ENTRIES).step_by(FROZEN_AT_ONCE);
            result = parts.try_for_each(|first| {
                let slots = first..first + FROZEN_AT_ONCE;
                let folio = &mut self.folio;
                let frozen =
                    entries.with_leaves(region, |table| table.freeze(slots, folio, &mut needs_flush));
                frozen.unwrap_or(Err(NotFrozen::Busy))
            });
            if needs_flush && !mutant!("collapse.weakened-not-flushed") {
                gather.need_flush(region);
            }
        });
        result?;
        let (folio, mut from) = (&mut self.folio, 0);
        while folio.next_wanted(from).is_some() {
            let frames = entries
                .with_leaves(region, |table| table.shared_frames::<COPIED_AT_ONCE>(&mut from, folio))
                .ok_or(CollapseRefusal::Busy)??;
            // Without the lock: a fault of the region waits for no copy.
            for (slot, frame) in frames.iter().flatten() {
                folio.copy_part(*slot, frame);
            }
        }
        folio.zero_rest();
        Ok(())
    }

    /// Locks the region's table and the one above it, unless a page was taken since the last look: then what
    /// was copied is not all.
    fn lock_copied(&self) -> Result<Option<LockedRegion<'a, M>>, CollapseRefusal> {
        let tables = self.entries.lock_region(self.region).ok_or(CollapseRefusal::Busy)?;
        Ok((!self.under_way.is_any_taken()).then_some(tables))
    }

    /// Maps the folio in the place of the region's table.
    fn replace(
        self,
        tables: LockedRegion<'a, M>,
        leaf: (AnonKey, LeafBits),
    ) -> Result<CollapsedTable<'a, M>, CollapseRefusal> {
        let Self { entries, region, folio, .. } = self;
        let LockedRegion { mut parent, slot, child } = tables;
        let vm = entries.vm;
        let flush = || {
            vm.count(Counter::TlbFlush);
            vm.shootdown.flush(vm.machine, &entries.tlb, FlushRange::of(region));
        };
        let old = parent.replace_by_folio(slot, child, folio, leaf, flush).ok_or(CollapseRefusal::Busy)?;
        drop(parent);
        vm.counters.count_each([Counter::TableFree, Counter::NrAnonTransparentHugepages]);
        Ok(old)
    }
}

impl<M: Machine> Entries<'_, M> {
    /// Calls `edit` with the region's table of base pages, locked. `None` where it has none. Lets a CPU that
    /// waits for the table have it before this returns: the caller is about to lock it again.
    fn with_leaves<'s, R>(
        &'s self,
        region: VpnRange,
        edit: impl FnOnce(&mut LockedTable<'s, M>) -> R,
    ) -> Option<R> {
        let reading = self.vm.rcu.read();
        let found = walk(&self.table, region.start, Level::Pte, &reading);
        let locked = if found.table.level() == Level::Pte { found.table.lock() } else { None };
        drop(reading);
        let mut table = locked?;
        let result = edit(&mut table);
        table.unlock_to_waiter();
        Some(result)
    }

    /// Locks the region's table of base pages, and the one above it.
    fn lock_region(&self, region: VpnRange) -> Option<LockedRegion<'_, M>> {
        let reading = self.vm.rcu.read();
        let found = walk(&self.table, region.start, Level::Pmd, &reading);
        let (slot, parent) = (found.slot, found.table.lock()?);
        drop(reading);
        let child = parent.child(slot)?.lock_below(&parent)?;
        Some(LockedRegion { parent, slot, child })
    }
}

impl From<NotFrozen> for CollapseRefusal {
    fn from(reason: NotFrozen) -> Self {
        match reason {
            NotFrozen::Referenced => Self::Referenced,
            NotFrozen::Busy => Self::Busy,
        }
    }
}

/// Whether pages with these entries may be collapsed.
fn check_counts(leaves: LeafCounts, limits: &CollapseLimits) -> Result<(), CollapseRefusal> {
    let LeafCounts { own, shared, referenced, others } = leaves;
    let present = own + shared + referenced;
    let counts = RegionCounts { present, shared, referenced, none: leaves.nr_none(), swapped: 0, others };
    refuse_counts(&counts, limits).map_or(Ok(()), Err)
}
