//! A translation that was just cleared, and the batch in which its frame waits for the flush.
//!
//! ```text
//!   entry ── unhook ──► Unhooked ── add ──► GatherBatch ── free_after(flush) ──► free frames, retired tables
//! ```
//!
//! A batch takes any number of exclusive frames and tables, which are linked through their records, but few
//! frames that others may map too, whose records are not its own. More of those stay in their slots,
//! *pending*, until the batch is flushed: in tables that were detached the batch finds them, in others the
//! writer, which has a [`Flushed`] to put them.

use super::shared_leaf::SharedLeaf;
use super::{Base, DetachedTable, Flushed, MappedFrame};
use crate::frame::free::cached_word;
use crate::frame::{FrameMeta, Init, Kind, Memory, SLOTS_PER_PART};
use crate::machine::{Cpu, Entry, Format, Leaf, Machine};
use crate::sync::Rcu;
use crate::sync::atomic::Ordering::*;
use crate::units::{Level, Pfn, VpnRange};
use core::mem::ManuallyDrop;

/// A translation that was cleared, and the frame or table that it mapped. It can only be added to a gather,
/// which flushes and then frees.
#[derive(Debug)]
#[must_use = "what was unhooked must be flushed and freed"]
pub struct Unhooked {
    pages: VpnRange,
    accessed: bool,
    cleared: Cleared,
}

#[derive(Debug)]
enum Cleared {
    /// A frame that no mapping owns: the zero page.
    Translation,
    /// One mapping of a frame, or of the frames that the huge leaf mapped whose pages these were; and whether
    /// its entry was *dirty*.
    Frame(Pfn, bool),
    /// Mappings that stay in their slots, pending. Whether their entries were *dirty* is noted.
    Pending,
    /// A detached table page, and the contents of its words.
    Table(Pfn, Init),
    /// Exclusive frames, each mapped by one entry that was cleared.
    Frames(UnhookedFrames),
}

/// Exclusive frames whose entries a sweep has cleared one after the other. They are linked through their
/// records, so that a gather takes all of them as one translation of many pages.
#[derive(Debug)]
pub(crate) struct UnhookedFrames {
    /// The frame that was added last; it leads to the others.
    last: Option<Pfn>,
    first: Option<Pfn>,
}

impl UnhookedFrames {
    /// No frames.
    pub const EMPTY: Self = Self { last: None, first: None };

    /// Adds the frame of an entry that was just cleared, under the lock of its table. The record says that it
    /// is exclusive: no other entry maps it, so its owner words are not needed any more.
    #[inline(always)]
    pub fn add<C: Cpu>(&mut self, meta: &FrameMeta<C>, pfn: Pfn) {
        debug_assert!(meta.state().is_exclusive(), "{pfn:?} may be mapped by others too");
        meta.set_next(self.last);
        self.last = Some(pfn);
        if self.first.is_none() {
            self.first = Some(pfn);
        }
    }
}

impl Unhooked {
    /// A leaf entry that mapped a frame without a reference: the zero page.
    pub(crate) fn translation(pages: VpnRange) -> Self {
        Self { pages, accessed: false, cleared: Cleared::Translation }
    }

    /// A leaf entry that mapped user memory.
    #[inline(always)]
    pub(crate) fn frame(pages: VpnRange, leaf: Leaf) -> Self {
        let dirty = leaf.dirty && !mutant!("unhook.dirty-dropped");
        let accessed = leaf.accessed && !mutant!("unhook.accessed-dropped");
        Self { pages, accessed, cleared: Cleared::Frame(leaf.pfn, dirty) }
    }

    /// Leaf entries of a table that mapped exclusive frames, or none that they owned. All lie in `pages`.
    #[inline(always)]
    pub(crate) fn frames(pages: VpnRange, frames: UnhookedFrames) -> Self {
        Self { pages, accessed: false, cleared: Cleared::Frames(frames) }
    }

    /// Leaf entries of a table that mapped user memory, in whose places the slots hold the mappings, pending.
    /// All lie in `pages`. The caller has [noted](note_dirty) what the entries said of stores.
    #[inline(always)]
    pub(crate) fn pending(pages: VpnRange) -> Self {
        Self { pages, accessed: false, cleared: Cleared::Pending }
    }

    /// An entry that pointed to a table, and the pages that the table covered.
    pub fn table<M: Machine>(pages: VpnRange, table: DetachedTable<'_, M>) -> Self {
        let (pfn, init) = table.into_parts();
        Self { pages, accessed: false, cleared: Cleared::Table(pfn, init) }
    }

    /// Frees the frame at once, as a writer must not do.
    #[cfg(all(test, loom))]
    pub(crate) fn free_unflushed<M: Machine>(self, memory: &Memory<'_, M>) {
        match self.cleared {
            Cleared::Frame(pfn, _) => SharedLeaf::new(pfn, self.pages).put(memory),
            Cleared::Frames(frames) => {
                let mut next = frames.last;
                while let Some(pfn) = next {
                    next = memory.meta_of(pfn).next();
                    memory.put_mapping(pfn);
                }
            }
            _ => {}
        }
    }

    /// Calls `flush`, which makes every CPU forget the translation, and then takes the mapping back. `flush`
    /// gets the mapping, which stays until it returns, and for good where it unwinds. For one translation
    /// whose table stays locked, or that no CPU can have used.
    pub(crate) fn put_after<M: Machine>(
        self,
        memory: &Memory<'_, M>,
        flush: impl FnOnce(&MappedFrame<'_, M>),
    ) {
        let Cleared::Frame(pfn, dirty) = self.cleared else { return };
        let mapped = ManuallyDrop::new(MappedFrame::of_counted(memory, pfn, Base));
        flush(&mapped);
        note_dirty(memory.meta_of(pfn), dirty);
        drop(ManuallyDrop::into_inner(mapped));
    }

    /// The pages whose translation is gone.
    pub fn pages(&self) -> VpnRange {
        self.pages
    }

    /// Whether the entry said that the page was used.
    pub fn accessed(&self) -> bool {
        self.accessed
    }
    /// Whether its frames stay in their slots.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.cleared, Cleared::Pending)
    }

    /// Whether the entry said that the page was written. The gather notes it in the record of a frame that
    /// outlives the entry.
    pub fn dirty(&self) -> bool {
        matches!(self.cleared, Cleared::Frame(_, true))
    }
}

/// Unhooked frames and tables that wait for one flush. Nothing is allocated for them: exclusive frames and
/// tables are linked through their records, shared frames are kept one by one. (Linux: `mmu_gather`'s batch.)
#[derive(Debug, Default)]
pub(crate) struct GatherBatch {
    frames: Option<Pfn>,
    tables: Option<Pfn>,
    /// `None` until there is one.
    shared: Option<[SharedLeaf; Self::MAX_SHARED]>,
    nr_shared: usize,
}

/// Frames that are freed to the CPU's cache at once.
const FREE_BATCH: usize = 32;

impl GatherBatch {
    /// The most frames that others may map too that a batch keeps itself. Few where tests are to see both
    /// ways.
    const MAX_SHARED: usize = if cfg!(any(loom, debug_assertions)) { 1 } else { 32 };

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.frames.is_none() && self.tables.is_none() && self.nr_shared == 0
    }

    /// Whether one more shared frame would not fit: flush first.
    pub fn is_full(&self) -> bool {
        self.nr_shared == Self::MAX_SHARED
    }

    /// Adds an unhooked translation. The batch is not full.
    #[inline(always)]
    pub fn add<M: Machine>(&mut self, memory: &Memory<'_, M>, unhooked: Unhooked) {
        match unhooked.cleared {
            Cleared::Translation | Cleared::Pending => {}
            Cleared::Frames(UnhookedFrames { last, first }) => {
                if let Some(first) = first {
                    memory.meta_of(first).set_next(self.frames);
                    self.frames = last;
                }
            }
            Cleared::Frame(pfn, dirty) => {
                let meta = memory.meta_of(pfn);
                if meta.state().is_exclusive() {
                    // No other entry maps it, so its owner words are not needed any more.
                    meta.set_next(self.frames);
                    self.frames = Some(pfn);
                } else {
                    self.add_shared(meta, SharedLeaf::new(pfn, unhooked.pages), dirty);
                }
            }
            Cleared::Table(pfn, init) => self.add_table(memory.meta_of(pfn), pfn, init),
        }
    }

    /// Adds a mapping of a frame that may outlive its entry.
    #[inline(never)]
    fn add_shared<C: Cpu>(&mut self, meta: &FrameMeta<C>, leaf: SharedLeaf, dirty: bool) {
        note_dirty(meta, dirty);
        debug_assert!(!self.is_full(), "{leaf:?} has no place");
        if let Some(slot) = self.shared.get_or_insert_default().get_mut(self.nr_shared) {
            *slot = leaf;
            self.nr_shared += 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn add_table<C: Cpu>(&mut self, meta: &FrameMeta<C>, pfn: Pfn, init: Init) {
        meta.set_next(self.tables);
        // A table that is not zero names itself.
        meta.set_prev((init == Init::Dirty).then_some(pfn));
        self.tables = Some(pfn);
    }

    /// Calls `flush`, which makes every CPU forget the translations that were added, and then frees all
    /// frames and tables; tables wait for the readers too. Nothing else frees what was added, but for frames
    /// that stay in their slots: the caller that added these puts them with the result.
    #[inline]
    pub fn free_after<M: Machine>(
        &mut self,
        memory: &Memory<'_, M>,
        rcu: &Rcu<M::Cpu>,
        flush: impl FnOnce(),
    ) -> Flushed {
        if mutant!("gather.freed-before-flush") {
            self.free(memory, rcu);
        }
        flush();
        self.free(memory, rcu);
        Flushed::after_flush()
    }

    /// Whether it holds nothing but exclusive frames.
    pub(super) fn is_one_list(&self) -> bool {
        self.tables.is_none() && self.nr_shared == 0
    }

    /// The exclusive frames as a list: the one that leads to the others.
    pub(super) fn take_list(&mut self) -> Option<Pfn> {
        self.frames.take()
    }

    fn free<M: Machine>(&mut self, memory: &Memory<'_, M>, rcu: &Rcu<M::Cpu>) {
        Self::free_exclusive(memory, self.frames.take());
        let shared = self.shared.iter().flatten().take(self.nr_shared);
        shared.for_each(|leaf| leaf.put(memory));
        self.nr_shared = 0;
        let mut next = self.tables.take();
        while let Some(pfn) = next {
            let links = memory.meta_of(pfn).links();
            next = links.next;
            let init = if links.prev.is_some() { Init::Dirty } else { Init::Zeroed };
            if init == Init::Zeroed && !mutant!("gather.detached-pending-lost") {
                // SAFETY: the list holds what `add_table` was given: `Cleared::Table`, which is made of a
                // `DetachedTable` only. The batch owns it, was flushed, and retires it below.
                unsafe { Self::put_mappings_of(memory, pfn) };
            }
            memory.retire_table(rcu, pfn, init);
        }
    }

    /// Frees a list of exclusive frames, in batches: the one unhooked first ends up warmest, so pages touched
    /// again in order get their frames in order. Each costs one read-modify-write, because a lockless walker
    /// with an old entry may be raising the count.
    pub(super) fn free_exclusive<M: Machine>(memory: &Memory<'_, M>, mut next: Option<Pfn>) {
        let (mut batch, mut len) = ([0; FREE_BATCH], 0);
        while let Some(pfn) = next {
            let meta = memory.meta_of(pfn);
            next = meta.next();
            meta.remove_only_mapping();
            if meta.put_last_to_cache() {
                batch[len] = cached_word(pfn, Init::Dirty);
                len += 1;
            } else {
                // There is another reference, or the record says more of the frame.
                memory.put_exclusive(pfn);
            }
            if len == FREE_BATCH {
                memory.free_batch(&batch);
                len = 0;
            }
        }
        memory.free_batch(&batch[..len]);
    }

    /// Clears the slots of a detached table, and puts the frames of those that are pending or, in a table of
    /// base pages, leaves: afterwards the table is zero. It was flushed. (Anonymous memory's leaves say
    /// nothing else.)
    ///
    /// Each slot is cleared before its frame is put: a lockless walker that has read the entry before takes
    /// its reference before that, or finds the slot changed.
    ///
    /// # Safety
    /// The frame is a detached table, which the caller owns and has not retired.
    unsafe fn put_mappings_of<M: Machine>(memory: &Memory<'_, M>, table: Pfn) {
        let mut used = memory.meta_of(table).used_parts();
        if used == 0 {
            return;
        }
        // SAFETY: a detached table stays one until it is retired and its readers have left; the caller has
        // not retired it.
        let words = unsafe { memory.words(table) };
        while used != 0 {
            let part = used.trailing_zeros() as usize;
            used &= used - 1;
            for slot in part * SLOTS_PER_PART..(part + 1) * SLOTS_PER_PART {
                let word = words.at(slot);
                // Markers are the same at all levels, and only tables of base pages are detached with leaves.
                // Relaxed: only its owner changes a detached table, and scans, which clear *accessed*.
                let value = word.load(Relaxed);
                if value == M::Format::encode(Entry::Absent, Level::Pte) {
                    continue;
                }
                word.store(0, Relaxed);
                if let Some(pfn) = M::Format::pending_free(value, Level::Pte) {
                    memory.put_mapping(pfn);
                } else if let Entry::Leaf(leaf) = M::Format::decode(value, Level::Pte)
                    && leaf.owned()
                {
                    memory.put_mapping(leaf.pfn);
                }
            }
        }
    }
}

/// Notes in the record of an object's frame that an entry which is gone was written through. Anonymous memory
/// has no other copy, so there is nothing to note: MADV_FREE marks exclusive frames, which have one entry.
#[inline(always)]
pub(crate) fn note_dirty<C: Cpu>(meta: &FrameMeta<C>, dirty: bool) {
    if dirty && meta.state().kind() == Kind::Object {
        meta.note_dirty();
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Removes one mapping of user memory, after its flush; the last one puts the reference of all. The last
    /// reference frees the frame.
    pub(super) fn put_mapping(&self, pfn: Pfn) {
        if self.meta_of(pfn).remove_mapping() {
            self.put(pfn);
        }
    }
}
