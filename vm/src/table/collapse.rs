//! Collapse: a huge leaf takes the place of a table of base pages, whose contents it has copied.
//!
//! ```text
//!   freeze     each frame of its own becomes shared, its leaf loses the right to write        child locked
//!   flush                                                                                     no lock
//!   copy       a few pages at a time                                                          child locked
//!   replace    look again ─► freeze what was written ─► leaves pending ─► detach ─► flush     both locked
//!              ─► copy that again ─► huge leaf
//!   free       the old frames and the table, once its readers have left                       no lock
//! ```
//!
//! *The copy counts as one that shares the frame.* A frame that a freeze has made shared says so itself as
//! long as its copy is good: whoever writes to it, or pins it, makes it exclusive first, as after a fork. And
//! a freeze is refused, by the word in which references are counted, where there is a pin already. So nothing
//! is remembered of a frame, and no entry is compared: a leaf whose frame is shared when the table is
//! locked for the last time has had that frame, with these contents, since the freeze.
//!
//! That holds as no other frame becomes shared, or gets into the table shared, meanwhile: only a fork and
//! another collapse do that. The caller keeps these out, and whatever takes leaves away.

use super::{LeafBits, LockedTable, Table};
use crate::frame::{Birth, DetachedTable, FrameMeta, GatherBatch, Kind, Memory, PartialFolio, Unhooked};
use crate::machine::{Cpu, Entry, Format, Leaf, Machine, Marker};
use crate::sync::Rcu;
use crate::units::{Level, Pfn, Rights, VpnRange};
use core::ops::Range;

/// What the entries of a table of base pages lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafCounts {
    /// User memory of this entry alone, without other references.
    pub own: u32,
    /// User memory that other entries map too.
    pub shared: u32,
    /// User memory that somebody else has a reference to, which may be a pin.
    pub referenced: u32,
    /// Markers, and frames that are not the space's.
    pub others: u32,
}

impl LeafCounts {
    /// Entries that hold nothing: absent, and the zero page.
    pub fn nr_none(&self) -> u32 {
        Level::ENTRIES as u32 - (self.own + self.shared + self.referenced + self.others)
    }

    fn add<M: Machine>(&mut self, memory: &Memory<'_, M>, entry: Entry) {
        let count = match entry {
            Entry::Absent => return,
            Entry::Leaf(leaf) if leaf.owned => match memory.meta(leaf.pfn) {
                Some(meta) => self.of(meta),
                None => &mut self.others,
            },
            Entry::Leaf(leaf) if leaf.pfn == memory.zero_frame() => return,
            _ => &mut self.others,
        };
        *count += 1;
    }

    /// A shared frame cannot be pinned: a reference to it is a reader's, who has it for a moment.
    fn of<C: Cpu>(&mut self, meta: &FrameMeta<C>) -> &mut u32 {
        let state = meta.state();
        match state.kind() {
            Kind::User if !state.is_exclusive() && meta.mapcount() > 1 => &mut self.shared,
            Kind::User if !state.is_exclusive() || state.refcount() == 1 => &mut self.own,
            Kind::User => &mut self.referenced,
            _ => &mut self.others,
        }
    }
}

impl<M: Machine> Table<'_, '_, M> {
    /// What the entries lead to. Takes no lock; stale at once. Parts of the table in which nothing seems to
    /// be in use are not read.
    pub(crate) fn count_leaves(&self) -> LeafCounts {
        let memory = self.tree.memory;
        let (used, mut from) = (self.used_parts_racy(), 0);
        let mut counts = LeafCounts::default();
        while let Some((slot, word)) = self.next_used(used, from..Level::ENTRIES) {
            from = slot + 1;
            counts.add(memory, M::Format::decode(word, self.level()));
        }
        counts
    }

    /// As [`first_used`](Self::first_used). Models look at the first and last slots only: there are too many
    /// for steps each.
    fn next_used(&self, used: u32, slots: Range<usize>) -> Option<(usize, u64)> {
        if cfg!(not(loom)) {
            return self.first_used(used, slots);
        }
        let is_looked_at = |slot: &usize| !(2..Level::ENTRIES - 2).contains(slot);
        slots.filter(is_looked_at).find_map(|slot| self.first_used(u32::MAX, slot..slot + 1))
    }
}

/// Somebody has a reference to a frame: perhaps it is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Referenced;

/// More pages than may be copied while the table is locked were written since they were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenMeanwhile;

/// Pages that are to be copied again: their slots, and what these map.
#[derive(Debug)]
pub(crate) struct StalePages {
    pages: [(usize, Pfn); StalePages::MOST],
    nr: usize,
}

impl StalePages {
    /// The most pages that are copied while the tables are locked: faults of the region wait for it. Few
    /// where tests are to see both results.
    const MOST: usize = if cfg!(any(loom, debug_assertions)) { 4 } else { 32 };

    fn push(&mut self, slot: usize, pfn: Pfn) -> Result<(), WrittenMeanwhile> {
        *self.pages.get_mut(self.nr).ok_or(WrittenMeanwhile)? = (slot, pfn);
        self.nr += 1;
        Ok(())
    }
}

/// A table whose leaves were replaced by a huge one, and flushed. Its slots own the frames that they mapped.
#[must_use = "the table and its frames are leaked unless they are freed"]
#[derive(Debug)]
pub(crate) struct CollapsedTable<'t, M: Machine>(DetachedTable<'t, M>);

impl<'t, M: Machine> LockedTable<'t, M> {
    /// Makes all user memory of this table's entries alone shared, and takes the rights to write. Sets
    /// `is_weakened` where an entry had one: then a flush is due, whatever the result.
    ///
    /// As a fork does it: a fast pin either finds the frame shared, and refuses, or its reference is found.
    ///
    /// # Errors
    /// [`Referenced`]: the frame of that page stays as it was, as do those after it.
    pub(crate) fn freeze(&mut self, is_weakened: &mut bool) -> Result<(), Referenced> {
        let mut slots = 0..Level::ENTRIES;
        while let Some((slot, _)) = self.table.next_used(self.used_parts(), slots.clone()) {
            slots.start = slot + 1;
            let Some((leaf, true)) = self.leaf_and_whether_exclusive(slot) else { continue };
            let is_shared = self.mapped_meta(slot).is_some_and(FrameMeta::share);
            if !is_shared && !mutant!("collapse.pin-ignored") {
                return Err(Referenced);
            }
            if leaf.rights.contains(Rights::WRITE) && !mutant!("collapse.left-writable") {
                self.write_protect(slot);
                *is_weakened = true;
            }
        }
        Ok(())
    }

    /// Copies the pages of these slots whose frames are shared to the parts of the block.
    pub(crate) fn copy_shared(&self, slots: Range<usize>, folio: &mut PartialFolio<'_, M>) {
        assert!(folio.is_of(self.table.tree.memory), "a block of another memory");
        let mut slots = slots;
        while let Some((slot, _)) = self.table.next_used(self.used_parts(), slots.clone()) {
            slots.start = slot + 1;
            if let Some((leaf, false)) = self.leaf_and_whether_exclusive(slot) {
                // SAFETY: the entry owns a mapping of the frame, which is user memory, and stays as long as
                // the table is locked.
                unsafe { folio.copy_part(slot, leaf.pfn) };
            }
        }
    }

    /// The pages whose copy is missing or no longer good: they were installed, written or pinned since.
    ///
    /// # Errors
    /// [`WrittenMeanwhile`]: too many; or a page that was copied is gone.
    pub(crate) fn stale_pages(&self, folio: &PartialFolio<'_, M>) -> Result<StalePages, WrittenMeanwhile> {
        let mut stale = StalePages { pages: [(0, Pfn(0)); _], nr: 0 };
        let mut slots = 0..Level::ENTRIES;
        while let Some((slot, _)) = self.table.next_used(self.used_parts(), slots.clone()) {
            slots.start = slot + 1;
            if let Some((leaf, is_exclusive)) = self.leaf_and_whether_exclusive(slot)
                && (is_exclusive && !mutant!("collapse.written-not-copied-again") || !folio.has_copy(slot))
            {
                stale.push(slot, leaf.pfn)?;
            }
        }
        let is_there = |slot| self.leaf_and_whether_exclusive(slot).is_some();
        if folio.copies().all(is_there) { Ok(stale) } else { Err(WrittenMeanwhile) }
    }

    /// The leaf of user memory in `slot`, and whether its frame is exclusive.
    fn leaf_and_whether_exclusive(&self, slot: usize) -> Option<(Leaf, bool)> {
        let leaf = self.owned_leaf(slot)?;
        Some((leaf, self.table.tree.memory.meta_of(leaf.pfn).state().is_exclusive()))
    }

    /// What the entries lead to.
    pub(crate) fn leaf_counts(&self) -> LeafCounts {
        self.table.count_leaves()
    }

    /// Replaces `child`, to which `slot` points, all of whose frames are shared, by a leaf of the block with
    /// these bits, once the stale pages were copied again. `flush` makes every CPU forget what it has cached
    /// of the pages. `None`, and no change, where the slot points to another table; the caller keeps out
    /// whoever could make it so.
    ///
    /// P9: a marker keeps the hardware out from the time when the slot loses the table until the flush has
    /// ended, so no TLB holds translations of both sizes, and the pages copied again are not written.
    pub(crate) fn replace_by_block(
        &mut self,
        slot: usize,
        mut child: LockedTable<'t, M>,
        (stale, mut folio): (&StalePages, PartialFolio<'_, M>),
        (birth, bits): (Birth, LeafBits),
        flush: impl FnOnce(),
    ) -> Option<CollapsedTable<'t, M>> {
        assert!(folio.is_of(self.table.tree.memory), "a block of another memory");
        if self.entry(slot) != Entry::Table(child.table.pfn()) {
            return None;
        }
        child.leave_all_pending();
        let old = self.detach(slot, child)?;
        self.mark(slot, Marker::Busy);
        if !mutant!("collapse.flush-skipped") {
            flush();
        }
        for &(part, pfn) in &stale.pages[..stale.nr] {
            // SAFETY: a slot of the table that `old` owns holds a mapping of the frame, pending; it is put
            // when `old` is freed, later. So the frame is user memory.
            unsafe { folio.copy_part(part, pfn) };
        }
        self.install_huge(slot, folio.into_mapped_at(birth), bits);
        Some(CollapsedTable(old))
    }

    /// Makes each leaf of user memory *pending*, and the others absent.
    fn leave_all_pending(&mut self) {
        let mut slots = 0..Level::ENTRIES;
        while let Some((slot, _)) = self.table.next_used(self.used_parts(), slots.clone()) {
            slots.start = slot + 1;
            if let Entry::Leaf(leaf) = self.entry(slot) {
                let pending = Entry::Marker(Marker::PendingFree(leaf.pfn));
                self.replace(slot, if leaf.owned { pending } else { Entry::Absent });
            }
        }
    }
}

impl<M: Machine> CollapsedTable<'_, M> {
    /// Frees the frames, and the table once no lockless walker can hold it. May wait for readers, so no
    /// table is locked.
    pub(crate) fn free(self, memory: &Memory<'_, M>, rcu: &Rcu<'_, M::Cpu>, pages: VpnRange) {
        self.0.assert_of(rcu);
        let mut batch = GatherBatch::default();
        batch.add(memory, Unhooked::table(pages, self.0));
        // Flushed when the huge leaf was installed.
        batch.free_after(memory, rcu, || ());
    }
}
