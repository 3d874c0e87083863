//! fork: a second space with the same private memory, which both copy when they write.
//!
//! ```text
//!   alone: the child gets the mappings ─► let readers in ─► sweep, table by table ─► flush, once
//!                                                │
//!                 child's table, unlinked  ◄── lock the parent's table: cursor, dup each leaf, unlock
//!                 linked when the sweep leaves its region
//! ```
//!
//! Everything that may be refused because of the mappings is decided before the parent changes. From then on
//! the parent has only lost rights to write, which faults give back; so a fork that ends for lack of memory
//! undoes nothing in the parent: it drops the child. docs/design/fork.md says why the child's memory is a
//! consistent snapshot though threads of the parent go on.

use super::fork_leaf::copies_shared_hugetlb;
use super::fork_pinned::ForkCopies;
use crate::frame::{Base, NotMappedAgain, TableFrame};
use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, PublishedGuard, Split};
use crate::space::fork_cursor::ForkUnderWay;
use crate::space::{AddressSpace, Counter, Error, RangeToken};
use crate::sync::atomic::Ordering::*;
use crate::table::{LeafBits, LockedTable, OnFork, SlotMarker, UnlinkedTable, ZeroLeaf};
use crate::table::{visit_next, walk};
use crate::tlb::Gather;
use crate::units::{Level, PageSize, Vpn, VpnRange};
use crate::vma::{VmaFlags, inherit};

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
    /// [`FaultError::NoMemory`](crate::space::FaultError::NoMemory): the embedder chooses which process to
    /// end then.
    ///
    /// # Errors
    /// [`Error::NoMemory`] where a mapping cannot be committed again, or there is no memory for records or
    /// tables, or a frame is mapped too often. Where a mapping cannot be committed nothing has changed; where
    /// memory was lacking, private pages have lost the right to write, which their next stores give back (so
    /// have in Linux those of mappings below one that it does not commit). Huge pages may have been split
    /// because they lie in two mappings, or there was a reference to them.
    pub fn fork(&self) -> Result<Self, Error> {
        // Before the lock, so dropped after it: two spaces' locks are never held together.
        let child = AddressSpace::below(self.vm, self.mappings.layout, self.path, Some(&self.node))?;
        #[cfg(loom)]
        crate::sync::forget_value(&child);
        let Self { mappings, entries, .. } = self;
        let guard = mappings.write_all();
        child.mappings.heap_end.store(mappings.heap_end.load(Relaxed), Relaxed);
        child.entries.fork.note_fork();
        if entries.has_moved() {
            child.entries.note_moved();
        }
        child.mappings.set_thp_disable(mappings.thp_disable());
        mappings.fork_to(guard.token(), &child)?;
        let cursor = entries.fork.begin();
        let guard = mappings.published(entries, guard, mappings.all_pages());
        let forked = Fork::run((self, &child), &cursor, &guard)
            .and_then(|copied| ForkCopies { parent: entries, child: &child }.run(copied));
        // The flush is done: what is written from here on, the child does not see.
        if cursor.has_frozen() {
            mappings.thaw(guard.token());
        }
        drop(cursor);
        drop(guard);
        // The CPU that forks need not be the one that runs the child.
        child.entries.table.release_ownership();
        forked.map(|()| child)
    }
}

impl<'v, M: Machine> Mappings<'v, M> {
    /// Gives the child its mappings.
    fn fork_to(&self, token: RangeToken<'_>, child: &AddressSpace<'v, M>) -> Result<(), Error> {
        let mut rest = self.all_pages();
        while let Some(vma) = self.first_in(token, rest) {
            rest.start = vma.range.end;
            let Some(inherited) = inherit(&vma, || self.vm.numbers.next()) else { continue };
            if inherited.flags.contains(VmaFlags::ACCOUNT) && !mutant!("fork.not-committed") {
                self.limits(token).commit(inherited.range.len())?;
            }
            child.mappings.adopt(&child.entries, inherited, self.id)?;
            // PFN-mapped frames are mapped in the child from the start, as they are here.
            if inherited.pfn_mapping().is_some() {
                child.entries.install_leaves(&inherited)?;
            }
        }
        Ok(())
    }
}

/// The entries of a space that only the caller knows are filled.
impl<'v, M: Machine> Entries<'v, M> {
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
            let found = walk(&self.table, page, level, &reading);
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
        let found = walk(&self.table, page, level, &self.vm.rcu.read()).table.level();
        if found == level { Ok(None) } else { self.alloc_table().map(Some) }
    }
}

/// The sweep of a fork over the parent's tables, which shares what its private mappings have with the child.
pub(super) struct Fork<'a, 'g, 'v, M: Machine> {
    pub parent: &'a AddressSpace<'v, M>,
    pub child: &'a AddressSpace<'v, M>,
    pub cursor: &'a ForkUnderWay<'a, M::Cpu>,
    pub gather: &'a mut Gather<'g, 'v, M>,
    /// The child's table that is being filled, and the first page of its region. Several mappings may have
    /// pages there.
    open: Option<(Vpn, UnlinkedTable<'v, M>)>,
    /// Allocated before the lock of the parent's table, and not needed yet.
    spare: Option<TableFrame<'v, M>>,
    /// The span of the pages that are to be copied: those whose frames are pinned, and of the hugetlb pool.
    copied: VpnRange,
}

impl<'a, 'v, M: Machine> Fork<'a, '_, 'v, M> {
    /// Shares the frames of all private mappings that the child has, and flushes. Returns pages among which
    /// are all those that are to be copied: their slots of the child are marked busy.
    fn run(
        (parent, child): (&'a AddressSpace<'v, M>, &'a AddressSpace<'v, M>),
        cursor: &'a ForkUnderWay<'a, M::Cpu>,
        guard: &PublishedGuard<'_, M>,
    ) -> Result<VpnRange, Error> {
        let all = parent.mappings.all_pages();
        let mut result = Ok(VpnRange::default());
        parent.entries.gather_pending(guard.token(), guard.pending(), all, |gather| {
            let copied = VpnRange::default();
            let mut fork = Fork { parent, child, cursor, gather, open: None, spare: None, copied };
            result = fork.mappings(guard.token(), all).map(|()| fork.copied);
        });
        result
    }

    /// Notes that the pages are to be copied, which come after those that were noted before.
    pub(super) fn note_copied(&mut self, pages: VpnRange) {
        let start = if self.copied.is_empty() { pages.start } else { self.copied.start };
        self.copied = VpnRange::new(start, pages.end);
    }

    /// Sweeps all private mappings that the child has with their contents.
    fn mappings(&mut self, token: RangeToken<'_>, all: VpnRange) -> Result<(), Error> {
        const WITHOUT: VmaFlags = VmaFlags::DONT_FORK.union(VmaFlags::WIPE_ON_FORK);
        let mut rest = all;
        while let Some(vma) = self.parent.mappings.first_in(token, rest) {
            rest.start = vma.range.end;
            if vma.flags.intersects(WITHOUT) {
                continue;
            }
            if (vma.is_private() || copies_shared_hugetlb())
                && self.parent.mappings.has_own_memory(&vma, self.cursor)
            {
                self.mapping(vma.range, vma.backing.get().page_size())?;
            }
        }
        self.link_open()
    }

    fn mapping(&mut self, range: VpnRange, size: PageSize) -> Result<(), Error> {
        let (mut rest, mut frames) = (range, 0);
        while !rest.is_empty() {
            if self.parent.entries.may_have_huge_leaves()
                && let Some((end, shared)) = self.leaf(rest, size)?
            {
                frames += shared;
                rest.start = end;
                continue;
            }
            self.prepare(rest.start)?;
            let (cursor, open, spare) = (self.cursor, &mut self.open, &mut self.spare);
            let (gather, frames, copied) = (&mut *self.gather, &mut frames, &mut self.copied);
            let swept = visit_next(&self.parent.entries.table, rest, |table, part| {
                if !mutant!("fork.cursor-not-advanced") {
                    cursor.advance(part.end);
                }
                if table.level() != Level::Pte {
                    return Ok(0);
                }
                let first = region_of(part.start);
                let (_, leaves) =
                    open.get_or_insert_with(|| (first, UnlinkedTable::new(spare.take().expect("prepared"))));
                dup_leaves(table, part, leaves, gather, copied)
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
            self.child.mappings.note_copies(range.start);
        }
        Ok(())
    }

    /// Gets ready for the region of `page`: the table of another one is linked, an empty one is there, and
    /// a huge page that is not shared as a whole is split. A fault may install another one before the sweep
    /// locks the table, which visits nothing then.
    fn prepare(&mut self, page: Vpn) -> Result<(), Error> {
        if self.parent.entries.may_have_huge_leaves() {
            Split::new(&self.parent.entries).at(page)?;
        }
        if self.open.as_ref().is_some_and(|(first, _)| *first != region_of(page)) {
            self.link_open()?;
        }
        if self.open.is_none() && self.spare.is_none() {
            self.spare = Some(self.parent.entries.alloc_table()?);
        }
        Ok(())
    }

    /// Links the child's table that is open.
    fn link_open(&mut self) -> Result<(), Error> {
        let Some((first, leaves)) = self.open.take() else { return Ok(()) };
        if leaves.is_empty() {
            return Ok(());
        }
        self.child.entries.link_leaves(first, leaves)?;
        self.parent.vm.count(Counter::TableAlloc);
        Ok(())
    }
}

/// The first page that the table of the page's leaf covers.
fn region_of(page: Vpn) -> Vpn {
    Vpn(page.0 & !(Level::Pte.table_pages() - 1))
}

/// Shares the leaves of a part of one table, under its lock; those that are pinned are added to the span
/// `copied`. Returns the number of frames that the child has then or gets.
#[inline(never)]
fn dup_leaves<M: Machine>(
    table: &mut LockedTable<'_, M>,
    part: VpnRange,
    leaves: &mut UnlinkedTable<'_, M>,
    gather: &mut Gather<'_, '_, M>,
    copied: &mut VpnRange,
) -> Result<u64, Error> {
    let first = Level::Pte.index(part.start);
    let mut slots = first..first + part.len() as usize;
    let page = |slot: usize| part.start.add((slot - first) as u64);
    let (mut frames, mut first_protected, mut end_protected) = (0, Level::ENTRIES, 0);
    let mut result = Ok(());
    while let Some(slot) = table.first_used(slots.clone()) {
        slots.start = slot + 1;
        table.prefetch_after(slot);
        let (was_writable, is_pinned) = match table.dup(slot, Base) {
            Ok(Some(dup)) => {
                let was_writable = dup.was_writable;
                leaves.install_word(slot, dup);
                (was_writable, false)
            }
            Ok(None) => {
                dup_unowned(table, slot, leaves);
                continue;
            }
            Err(NotMappedAgain::OfObject) => continue,
            Err(NotMappedAgain::Referenced) => {
                leaves.mark(slot, SlotMarker::Busy);
                (table.take_write(slot), true)
            }
            Err(NotMappedAgain::TooManyMappings) => {
                result = Err(Error::NoMemory);
                break;
            }
        };
        frames += 1;
        if was_writable && !mutant!("fork.flush-skipped") {
            (first_protected, end_protected) = (first_protected.min(slot), slot + 1);
        }
        if is_pinned {
            let start = if copied.is_empty() { page(slot) } else { copied.start };
            *copied = VpnRange::new(start, page(slot + 1));
        }
    }
    if first_protected < end_protected {
        gather.need_flush(VpnRange::new(page(first_protected), page(end_protected)));
    }
    result.map(|()| frames)
}

/// As [`dup_leaves`], of a slot that holds a marker, or a leaf that owns nothing.
#[inline(always)]
fn dup_unowned<M: Machine>(table: &LockedTable<'_, M>, slot: usize, leaves: &mut UnlinkedTable<'_, M>) {
    match (table.leaf(slot), table.marker(slot)) {
        (Some((leaf, class)), _) if class.is_zeros() => {
            leaves.install(slot, ZeroLeaf::BASE, LeafBits::of(leaf));
        }
        (None, Some(marker)) if marker.on_fork() == OnFork::Copy && !mutant!("fork.marker-left-out") => {
            leaves.mark(slot, marker);
        }
        _ => {}
    }
}
