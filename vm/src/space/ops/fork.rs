//! fork: a second space with the same private memory, which both copy when they write.
//!
//! ```text
//!   alone: the child gets the mappings ─► let readers in ─► sweep, table by table ─► flush, once
//!                                                │
//!                 child's table, unlinked  ◄── lock the parent's table: cursor, share each leaf, unlock
//!                 linked when the sweep leaves its region
//! ```
//!
//! Everything that may be refused because of the mappings is decided before the parent changes. From then on
//! the parent has only lost rights to write, which faults give back; so a fork that ends for lack of memory
//! undoes nothing in the parent: it drops the child. docs/design/fork.md says why the child's memory is a
//! consistent snapshot though threads of the parent go on.

use crate::frame::{Base, NotMappedAgain, TableFrame};
use crate::machine::{Entry, Machine};
use crate::space::edit::PublishedGuard;
use crate::space::fork_cursor::ForkUnderWay;
use crate::space::{AddressSpace, Counter, Error, Held};
use crate::sync::ReadGuard;
use crate::sync::atomic::Ordering::*;
use crate::table::{EntryRef, LeafBits, LockedTable, UnlinkedTable, ZeroLeaf, visit_next, walk};
use crate::tlb::Gather;
use crate::units::{Level, Order, PageSize, Vpn, VpnRange};
use crate::vma::{AnonId, Vma, VmaAttributes, VmaFlags, VmaState, inherit, pages_of};

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// A new space with copies of this one's mappings and of its private memory, as it is at one instant: of
    /// two stores that a thread makes one after the other, the new space never has the second without the
    /// first. Shared memory stays shared. Frames are shared too, and copied when one of the spaces writes.
    ///
    /// Mappings with [`VmaFlags::DONT_FORK`] are left out, those with [`VmaFlags::WIPE_ON_FORK`] are empty.
    ///
    /// Locks the whole space to write, and lets readers in while it shares frames: faults go on, but for
    /// writes to private pages that are shared already, which wait for the end of the fork.
    ///
    /// A later write that has to copy and finds no memory ends with
    /// [`FaultError::NoMemory`](crate::space::FaultError::NoMemory): the embedder chooses whom to end then.
    ///
    /// # Errors
    /// [`Error::NoMemory`] where a mapping cannot be committed again, or there is no memory for records or
    /// tables, or a frame is mapped too often. Where a mapping cannot be committed nothing has changed; where
    /// memory was lacking, private pages have lost the right to write, which their next stores give back (so
    /// have in Linux those of mappings below one that it does not commit). Huge pages may have been split
    /// because they lie in two mappings, or somebody had a reference to them.
    pub fn fork(&self) -> Result<Self, Error> {
        // Before the lock, so dropped after it: two spaces' locks are never held together.
        let child = AddressSpace::below(self.vm, self.layout, self.path, Some(&self.node))?;
        #[cfg(loom)]
        crate::sync::forget_value(&child);
        let guard = self.write_all();
        child.heap_end.store(self.heap_end.load(Relaxed), Relaxed);
        child.entries.fork.note_fork();
        child.refuse_huge_pages(self.huge_refusal());
        self.fork_mappings(guard.held(), &child)?;
        let fork = self.entries.fork.begin();
        let guard = self.published(guard, self.all_pages());
        let forked =
            self.fork_entries(&guard, &fork, &child).and_then(|pinned| self.copy_busy_to(&child, pinned));
        // The flush is done: what is written from here on, the child does not see.
        drop(fork);
        drop(guard);
        // The CPU that forks need not be the one that runs the child.
        child.entries.table.release_ownership();
        forked.map(|()| child)
    }

    /// Gives the child its mappings.
    fn fork_mappings(&self, held: Held<'_>, child: &Self) -> Result<(), Error> {
        let mut rest = self.all_pages();
        while let Some(vma) = self.first_in(held, rest) {
            rest.start = vma.range.end;
            let Some(inherited) = inherit(&vma, || self.vm.numbers.next()) else { continue };
            if inherited.flags.contains(VmaFlags::ACCOUNT) && !mutant!("fork.not-committed") {
                self.limits(held).commit(inherited.range.len())?;
            }
            if inherited.flags.contains(VmaFlags::HUGE_PAGE) {
                child.note_huge_pages();
            }
            if !inherited.is_anonymous() {
                child.note_shared_huge_pages();
            }
            if inherited.hugetlb().is_some() {
                child.entries.note_huge_leaves();
            }
            child.adopt(inherited)?;
            // Frames that were given are mapped in the child from the start, as they are here.
            if inherited.pfn_mapping().is_some() {
                child.entries.note_huge_leaves();
                child.install_leaves(&inherited)?;
            }
        }
        Ok(())
    }

    /// Adds a mapping to a space that only the caller knows.
    fn adopt(&self, attributes: VmaAttributes) -> Result<(), Error> {
        let backing = attributes.backing;
        if let Some(object) = backing.object() {
            self.vm.count_mapped(object, attributes.range.len());
        }
        let record = [Vma::new(attributes, VmaState::Live)];
        match self.vmas.prepare(attributes.range, record, &self.records) {
            Ok(prepared) => {
                prepared.publish();
                Ok(())
            }
            Err(_) => {
                self.release_backing(backing, attributes.range);
                Err(Error::NoMemory)
            }
        }
    }

    /// Shares the frames of all private mappings that the child has, and flushes. Returns pages among which
    /// are all those that are to be copied: their slots of the child are marked busy.
    fn fork_entries(
        &self,
        guard: &PublishedGuard<'_, M>,
        fork: &ForkUnderWay<'_, M::Cpu>,
        child: &Self,
    ) -> Result<VpnRange, Error> {
        let all = self.all_pages();
        let mut result = Ok(VpnRange::default());
        self.gather_pending(guard.held(), guard.pending(), all, |gather| {
            let pinned = VpnRange::default();
            let mut sweep = ForkSweep { parent: self, child, fork, gather, open: None, spare: None, pinned };
            result = sweep.mappings(guard.held(), all).map(|()| sweep.pinned);
        });
        result
    }

    /// Links a table of leaves of a space that only the caller knows, and the tables above it.
    fn link_leaves(&self, page: Vpn, leaves: UnlinkedTable<'v, M>) -> Result<(), Error> {
        self.fill_above(page, Level::Pmd, |above, slot| {
            above.link_filled(slot, leaves).map_err(|_| Error::NoMemory)
        })
    }

    /// Links the tables on the way to that of `level`, above the last, in a space that only the caller knows,
    /// and calls `fill` with the last of them, locked, and the slot of the page.
    pub(super) fn fill_above(
        &self,
        page: Vpn,
        level: Level,
        fill: impl FnOnce(&mut LockedTable<'_, M>, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            let upper = self.table_above(page, level)?;
            let reading = self.vm.rcu.read();
            let found = walk(&self.entries.table, page, level, &reading);
            let slot = found.slot;
            let locked = found.table.lock();
            drop(reading);
            let mut above = locked.ok_or(Error::NoMemory)?;
            let Some(upper) = upper else { return fill(&mut above, slot) };
            let linked = above.link(slot, upper).is_ok();
            debug_assert!(linked, "only the caller links tables into the space");
            self.vm.count(Counter::TableAlloc);
        }
    }

    /// An empty table to be linked next on the way to that of `level`; `None` where the way is there.
    fn table_above(&self, page: Vpn, level: Level) -> Result<Option<TableFrame<'v, M>>, Error> {
        let found = walk(&self.entries.table, page, level, &self.vm.rcu.read()).table.level();
        if found == level { Ok(None) } else { self.alloc_table().map(Some) }
    }
}

/// The sweep of a fork over the parent's tables.
struct ForkSweep<'a, 'g, 'v, M: Machine> {
    parent: &'a AddressSpace<'v, M>,
    child: &'a AddressSpace<'v, M>,
    fork: &'a ForkUnderWay<'a, M::Cpu>,
    gather: &'a mut Gather<'g, 'v, M>,
    /// The child's table that is being filled, and the first page of its region. Several mappings may have
    /// pages there.
    open: Option<(Vpn, UnlinkedTable<'v, M>)>,
    /// Allocated before the lock of the parent's table, and not needed yet.
    spare: Option<TableFrame<'v, M>>,
    /// The hull of the pages that are to be copied: those whose frames are pinned, and of the reserved pool.
    pinned: VpnRange,
}

impl<M: Machine> ForkSweep<'_, '_, '_, M> {
    /// Sweeps all private mappings that the child has with their contents.
    fn mappings(&mut self, held: Held<'_>, all: VpnRange) -> Result<(), Error> {
        const WITHOUT: VmaFlags = VmaFlags::DONT_FORK.union(VmaFlags::WIPE_ON_FORK);
        let mut rest = all;
        while let Some(vma) = self.parent.first_in(held, rest) {
            rest.start = vma.range.end;
            if vma.flags.intersects(WITHOUT) {
                continue;
            }
            // Pages of objects are not copied: the child's faults find them. Private copies are.
            let has_copies = vma.is_anonymous() || !vma.anon.is_none() || vma.hugetlb().is_some();
            if (vma.is_private() || mutant!("pool.shared-copied")) && has_copies {
                self.mapping(vma.range, vma.backing.get().page_size())?;
            }
        }
        self.link_open()
    }

    fn mapping(&mut self, range: VpnRange, size: PageSize) -> Result<(), Error> {
        let (mut rest, mut frames) = (range, 0);
        while !rest.is_empty() {
            let (gather, pinned) = (&mut *self.gather, &mut self.pinned);
            let leaf = (rest, size);
            if self.parent.entries.may_have_huge_leaves()
                && let Some((end, shared)) =
                    self.parent.share_leaf(leaf, self.fork, self.child, gather, pinned)?
            {
                frames += shared;
                rest.start = end;
                continue;
            }
            self.prepare(rest.start)?;
            let (fork, open, spare) = (self.fork, &mut self.open, &mut self.spare);
            let (gather, frames, pinned) = (&mut *self.gather, &mut frames, &mut self.pinned);
            let swept = visit_next(&self.parent.entries.table, rest, |table, part| {
                if !mutant!("fork.cursor-not-advanced") {
                    fork.advance(part.end);
                }
                if table.level() != Level::Pte {
                    return Ok(0);
                }
                let first = region_of(part.start);
                let (_, leaves) =
                    open.get_or_insert_with(|| (first, UnlinkedTable::new(spare.take().expect("prepared"))));
                share_leaves(table, part, leaves, gather, pinned)
            });
            let Some((end, shared)) = swept else {
                // A huge leaf is there: perhaps one that was put into a table of the space by hand.
                self.parent.entries.note_huge_leaves();
                continue;
            };
            *frames += shared?;
            rest.start = end;
        }
        if frames > 0 {
            self.child.note_copies(range.start);
        }
        Ok(())
    }

    /// Gets ready for the region of `page`: the table of another one is linked, an empty one is there, and
    /// a huge page that is not shared as a whole is split. A fault may install another one before the sweep
    /// locks the table, which visits nothing then.
    fn prepare(&mut self, page: Vpn) -> Result<(), Error> {
        if self.parent.entries.may_have_huge_leaves() {
            self.parent.split_huge_at(page)?;
        }
        if self.open.as_ref().is_some_and(|(first, _)| *first != region_of(page)) {
            self.link_open()?;
        }
        if self.open.is_none() && self.spare.is_none() {
            self.spare = Some(self.parent.alloc_table()?);
        }
        Ok(())
    }

    /// Links the child's table that is open.
    fn link_open(&mut self) -> Result<(), Error> {
        let Some((first, leaves)) = self.open.take() else { return Ok(()) };
        if leaves.is_empty() {
            return Ok(());
        }
        self.child.link_leaves(first, leaves)?;
        self.parent.vm.count(Counter::TableAlloc);
        Ok(())
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Splits the huge page that holds `page`, if there is one.
    #[cold]
    #[inline(never)]
    fn split_huge_at(&self, page: Vpn) -> Result<(), Error> {
        let reading = self.vm.rcu.read();
        let is_huge = self.huge_entry(page, &reading).is_some();
        drop(reading);
        if !is_huge {
            return Ok(());
        }
        let frame = self.alloc_table()?;
        let reading = self.vm.rcu.read();
        let found = self.huge_entry(page, &reading).and_then(|found| Some((found.slot, found.table.lock()?)));
        drop(reading);
        if let Some((slot, mut table)) = found
            && table.leaf(slot).is_some()
        {
            self.split_one(&mut table, slot, pages_of(Order::HUGE, page), Some(frame));
        }
        Ok(())
    }
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// The entry of the page, if that is a huge leaf.
    pub(super) fn huge_entry<'r, 's>(
        &'s self,
        page: Vpn,
        reading: &'r ReadGuard<'_, M::Cpu>,
    ) -> Option<EntryRef<'r, 's, M>> {
        let found = walk(&self.entries.table, page, Level::Pte, reading);
        let is_leaf = matches!(found.entry(), Entry::Leaf(_));
        (found.table.level() != Level::Pte && is_leaf).then_some(found)
    }
}

/// The first page that the table of the page's leaf covers.
fn region_of(page: Vpn) -> Vpn {
    Vpn(page.0 & !(Level::Pte.table_pages() - 1))
}

/// Shares the leaves of a part of one table, under its lock; those that are pinned are added to the hull
/// `pinned`. Returns the number of frames that the child has then or gets.
#[inline(never)]
fn share_leaves<M: Machine>(
    table: &mut LockedTable<'_, M>,
    part: VpnRange,
    leaves: &mut UnlinkedTable<'_, M>,
    gather: &mut Gather<'_, '_, M>,
    pinned: &mut VpnRange,
) -> Result<u64, Error> {
    let first = Level::Pte.index(part.start);
    let mut slots = first..first + part.len() as usize;
    let page = |slot: usize| part.start.add((slot - first) as u64);
    let (mut frames, mut first_weak, mut end_weak) = (0, Level::ENTRIES, 0);
    let mut result = Ok(());
    while let Some(slot) = table.first_used(slots.clone()) {
        slots.start = slot + 1;
        table.prefetch_after(slot);
        let (was_writable, is_pinned) = match table.share(slot, Base) {
            Ok(Some(share)) => {
                let was_writable = share.was_writable;
                leaves.install_word(slot, share);
                (was_writable, false)
            }
            Ok(None) => {
                share_unowned(table, slot, leaves);
                continue;
            }
            Err(NotMappedAgain::OfObject) => continue,
            Err(NotMappedAgain::Referenced) => {
                leaves.mark_busy(slot);
                (table.take_write(slot), true)
            }
            Err(NotMappedAgain::TooManyMappings) => {
                result = Err(Error::NoMemory);
                break;
            }
        };
        frames += 1;
        if was_writable && !mutant!("fork.flush-skipped") {
            (first_weak, end_weak) = (first_weak.min(slot), slot + 1);
        }
        if is_pinned {
            let start = if pinned.is_empty() { page(slot) } else { pinned.start };
            *pinned = VpnRange::new(start, page(slot + 1));
        }
    }
    if first_weak < end_weak {
        gather.weakened(VpnRange::new(page(first_weak), page(end_weak)));
    }
    result.map(|()| frames)
}

/// As [`share_leaves`], of a slot whose leaf owns nothing.
#[inline(always)]
fn share_unowned<M: Machine>(table: &LockedTable<'_, M>, slot: usize, leaves: &mut UnlinkedTable<'_, M>) {
    if let Some((leaf, class)) = table.leaf(slot)
        && class.is_zeros()
    {
        leaves.install(slot, ZeroLeaf::BASE, LeafBits::of(leaf));
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Gives the mapping at `page` an identity, where the parent's got its first copy during the fork. The
    /// caller alone knows the space.
    fn note_copies(&self, page: Vpn) {
        let reading = self.vm.rcu.read();
        if let Some(vma) = self.vmas.find(&reading, page)
            && vma.anon().is_none()
        {
            vma.give_anon(AnonId::inherited(self.vm.numbers.next()));
        }
    }
}
