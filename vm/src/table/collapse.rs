//! Collapse: a huge leaf takes the place of a table of base pages, whose contents it has copied.
//!
//! ```text
//!   freeze     each frame of its own becomes shared, its leaf loses the right to write   child, in parts
//!   flush                                                                                no lock
//!   copy       what was frozen, or has no copy; references taken before                  child, for those
//!              ▲── again, where a page was taken meanwhile
//!   replace    detach ─► flush ─► huge leaf                                              both
//!   free       leaves cleared, the old frames; the table, once its readers have left     no lock
//! ```
//!
//! *The copy counts as one that shares the frame.* A frame that a freeze has made shared says so itself as
//! long as its copy is good: a store to it, or a pin, makes it exclusive first, as after a fork. And
//! a freeze is refused, by the word in which references are counted, where there is a pin already.
//!
//! A CPU that makes a frame of the table exclusive, or installs one, says so under the table's lock (the
//! caller's note). So when nothing was said since the last freeze, each leaf has the frame that was copied,
//! with these contents, and the table is replaced without another look at its entries: what the locks are
//! held for is one flush.
//!
//! That holds as no other frame becomes shared, or gets into the table shared, meanwhile: only a fork and
//! another collapse do that. The caller keeps these out, and whatever takes leaves away.
//!
//! The old table keeps its leaves until it is freed. No walk from the root finds it any more, so after the
//! flush neither the hardware nor a handler reads through it; a fast pin that has read an entry before finds
//! the frame shared, and refuses.

use super::{LeafBits, LockedTable, SlotMarker, Table};
use crate::frame::{
    AnonKey, DetachedTable, FrameMeta, FrameRef, GatherBatch, Kind, Memory, PartialFolio, Unhooked,
};
use crate::machine::{Cpu, Entry, Format, Leaf, Machine};
use crate::sync::Rcu;
use crate::units::{Level, Rights, VpnRange};
use core::ops::Range;

/// What the entries of a table of base pages lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafCounts {
    /// User memory of this entry alone, without other references.
    pub own: u32,
    /// User memory that other entries map too.
    pub shared: u32,
    /// User memory with another reference, which may be a pin.
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
            Entry::Leaf(leaf) if leaf.owned() => match memory.meta(leaf.pfn) {
                Some(meta) => self.of(meta),
                None => &mut self.others,
            },
            Entry::Leaf(leaf) if leaf.pfn == memory.zero_frame() => return,
            _ => &mut self.others,
        };
        *count += 1;
    }

    /// A shared frame cannot be pinned: a reference to it is a reader's, which has it for a moment.
    fn of<C: Cpu>(&mut self, meta: &FrameMeta<C>) -> &mut u32 {
        let state = meta.state();
        match state.kind() {
            Kind::User if !state.is_exclusive() && meta.mapcount() > 1 => &mut self.shared,
            Kind::User if !state.is_exclusive() || state.has_one_reference() => &mut self.own,
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

/// References to frames of pages that are to be copied, with their slots.
type FramesToCopy<'t, M, const N: usize> = [Option<(usize, FrameRef<'t, M>)>; N];

/// Why a page cannot be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotFrozen {
    /// There is another reference to the frame: perhaps it is pinned.
    Referenced,
    /// The slot holds a marker, or a frame that is not the space's; or one that was copied is gone.
    Busy,
}

/// A table whose leaves were replaced by a huge one, and flushed. Its slots own the frames that they mapped.
#[must_use = "the table and its frames are leaked unless they are freed"]
#[derive(Debug)]
pub(crate) struct CollapsedTable<'t, M: Machine>(DetachedTable<'t, M>);

impl<'t, M: Machine> LockedTable<'t, M> {
    /// Makes user memory that is mapped by these slots alone shared, and takes the rights to write; what is
    /// to be copied then is noted in the folio. Sets `needs_flush` where an entry had a right: then a flush
    /// is due before the copy, whatever the result.
    ///
    /// As a fork does it: a fast pin either finds the frame shared, and refuses, or its reference is found.
    ///
    /// # Errors
    /// Why not. That page stays as it was, as do those after it.
    pub(crate) fn freeze(
        &mut self,
        slots: Range<usize>,
        folio: &mut PartialFolio<'_, M>,
        needs_flush: &mut bool,
    ) -> Result<(), NotFrozen> {
        let mut copies = slots.clone().filter(|&slot| folio.has_copy(slot));
        if !copies.all(|slot| self.owned_leaf(slot).is_some()) {
            return Err(NotFrozen::Busy);
        }
        let mut rest = slots;
        while let Some((slot, _)) = self.table.next_used(self.used_parts(), rest.clone()) {
            rest.start = slot + 1;
            let Some((leaf, is_exclusive)) = self.leaf_and_whether_exclusive(slot) else {
                let zero = self.tree().memory.zero_frame();
                let is_zero = matches!(self.entry(slot), Entry::Leaf(leaf) if leaf.pfn == zero);
                if is_zero { continue } else { return Err(NotFrozen::Busy) }
            };
            if is_exclusive {
                let is_shared = self.mapped_meta(slot).is_some_and(FrameMeta::clear_exclusive);
                if !is_shared && !mutant!("collapse.pin-ignored") {
                    return Err(NotFrozen::Referenced);
                }
                if leaf.rights.contains(Rights::WRITE) && !mutant!("collapse.left-writable") {
                    self.write_protect(slot);
                    *needs_flush = true;
                }
            }
            if is_exclusive && !mutant!("collapse.written-not-copied-again") || !folio.has_copy(slot) {
                folio.want_copy(slot);
            }
        }
        Ok(())
    }

    /// References to the next frames, from slot `from` on, that are to be copied and shared still, with their
    /// slots. No CPU writes to these frames, nor frees them, as long as there are the references: one that
    /// would make one exclusive again finds that it is not the only one (`try_make_exclusive`), and copies.
    /// Moves `from` on.
    ///
    /// # Errors
    /// [`NotFrozen::Referenced`]: a frame has as many references as can be counted.
    pub(crate) fn shared_frames<const N: usize>(
        &self,
        from: &mut usize,
        folio: &PartialFolio<'_, M>,
    ) -> Result<FramesToCopy<'t, M, N>, NotFrozen> {
        let mut frames = [const { None }; N];
        for next in &mut frames {
            *next = self.next_shared_frame(from, folio)?;
        }
        Ok(frames)
    }

    fn next_shared_frame(
        &self,
        from: &mut usize,
        folio: &PartialFolio<'_, M>,
    ) -> Result<Option<(usize, FrameRef<'t, M>)>, NotFrozen> {
        while let Some(slot) = folio.next_wanted(*from) {
            *from = slot + 1;
            let Some((leaf, false)) = self.leaf_and_whether_exclusive(slot) else { continue };
            // The entry keeps the frame as long as the table is locked, so it is refused for one reason only.
            match self.table.tree.memory.try_get(leaf.pfn) {
                Some(frame) => return Ok(Some((slot, frame))),
                None if mutant!("collapse.refused-reference-skipped") => {}
                None => return Err(NotFrozen::Referenced),
            }
        }
        Ok(None)
    }

    /// The leaf of user memory in `slot`, and whether its frame is exclusive.
    fn leaf_and_whether_exclusive(&self, slot: usize) -> Option<(Leaf, bool)> {
        let leaf = self.owned_leaf(slot)?;
        Some((leaf, self.table.tree.memory.meta_of(leaf.pfn).state().is_exclusive()))
    }

    /// Unlocks the table. Where another CPU waits for it, that has the lock next, or a few microseconds to
    /// get it: a CPU that locks a table again at once would be faster each time.
    pub(crate) fn unlock_to_waiter(self) {
        /// Longer than another CPU needs to find the lock free and to take it.
        const TURNS: usize = 100;
        let (is_contended, lock) = (self.held().is_contended(), self.own_lock());
        drop(self);
        if is_contended && !cfg!(loom) {
            let mut turns = 0..TURNS;
            while turns.next().is_some() && !lock.is_held_racy() {
                M::Cpu::relax();
            }
        }
    }

    /// Replaces `child`, a table of base pages to which `slot` points, by a leaf of the folio with these
    /// bits. All its frames are shared, and copied. `flush` makes every CPU forget what it has cached of the
    /// pages. `None`, and no change, where the slot points to another table; the caller keeps out what
    /// could make it so.
    ///
    /// P9: a marker keeps the hardware out from the time when the slot loses the table until the flush has
    /// ended, so no TLB holds translations of both sizes.
    pub(crate) fn replace_by_folio(
        &mut self,
        slot: usize,
        child: LockedTable<'t, M>,
        folio: PartialFolio<'_, M>,
        (key, bits): (AnonKey, LeafBits),
        flush: impl FnOnce(),
    ) -> Option<CollapsedTable<'t, M>> {
        assert!(folio.is_of(self.table.tree.memory), "a folio of another memory");
        assert!(child.level() == Level::Pte, "a table of base pages");
        let folio = folio.into_mapped_at(key);
        let old = self.detach_in_use(slot, child)?;
        self.mark(slot, SlotMarker::Busy);
        if mutant!("collapse.installed-before-flush") {
            self.install(slot, folio, bits);
            flush();
            return Some(CollapsedTable(old));
        }
        if !mutant!("collapse.flush-skipped") {
            flush();
        }
        self.install(slot, folio, bits);
        Some(CollapsedTable(old))
    }
}

impl<M: Machine> CollapsedTable<'_, M> {
    /// Clears the leaves, frees the frames, and the table once no lockless walker can hold it. May wait for
    /// readers, so no table is locked.
    pub(crate) fn free(self, memory: &Memory<'_, M>, rcu: &Rcu<'_, M::Cpu>, pages: VpnRange) {
        self.0.assert_of(rcu);
        let mut batch = GatherBatch::default();
        batch.add(memory, Unhooked::table(pages, self.0));
        // Flushed when the huge leaf was installed.
        batch.free_after(memory, rcu, || ());
    }
}
