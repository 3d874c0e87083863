//! A table of leaves that is filled before any walk reaches it: base pages, or the parts of a larger leaf.
//!
//! Nothing else can find it, so it is filled without a lock and without flushes, and linked by one store
//! ([`LockedTable::link_filled`](super::LockedTable::link_filled)). So a caller that copies a table holds the
//! lock of one table at a time. Dropped instead, it takes back the mappings that it holds: no CPU has walked
//! it.

use super::content::LeafContent;
use super::leaf::DupLeaf;
use super::locked::PART;
use super::{LeafBits, SlotMarker};
use crate::frame::{FolioSize, Memory, TableFrame, Unhooked, Words};
use crate::machine::{Entry, Format, Leaf, Machine};
use crate::sync::atomic::Ordering::*;
use crate::units::{Level, Vpn, VpnRange};
use core::fmt;

/// A table that no walk reaches, with the leaves that were put into it.
pub(crate) struct UnlinkedTable<'m, M: Machine> {
    /// `None` once it was linked. Its words are zero but for markers, and leaves, of which those that are
    /// *owned* own a mapping.
    frame: Option<TableFrame<'m, M>>,
    /// Of its entries.
    level: Level,
    memory: &'m Memory<'m, M>,
    /// As the record of a linked table: a bit for each part of it that is in use.
    used: u32,
}

impl<'m, M: Machine> UnlinkedTable<'m, M> {
    /// An empty table of base pages.
    pub fn new(frame: TableFrame<'m, M>) -> Self {
        Self::of_level(frame, Level::Pte)
    }

    /// An empty table of `level`.
    pub fn of_level(frame: TableFrame<'m, M>, level: Level) -> Self {
        Self { memory: frame.memory(), frame: Some(frame), level, used: 0 }
    }

    /// Whether nothing was put into it.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Whether something may have been put into the part that has the slot.
    pub(super) fn is_part_used(&self, slot: usize) -> bool {
        self.used >> (slot / PART) & 1 == 1
    }

    /// Notes that all slots are absent.
    pub(super) fn note_empty(&mut self) {
        self.used = 0;
    }

    /// The words of the table.
    pub(super) fn words(&self) -> Option<Words<'_, M::Cpu>> {
        let frame = self.frame.as_ref()?;
        // SAFETY: an owned `TableFrame` is a table of its memory, and stays one as long as it is borrowed.
        Some(unsafe { self.memory.words(frame.pfn()) })
    }

    /// Maps the content by a leaf in an absent slot.
    ///
    /// # Panics
    /// Where leaves of the table's level do not map as many frames.
    #[inline(always)]
    pub fn install<T: LeafContent<M>>(&mut self, slot: usize, content: T, bits: LeafBits) {
        assert!(content.level() == Some(self.level), "a leaf of another size in a table of {:?}", self.level);
        let leaf = content.into_leaf(self.memory, bits);
        self.put(slot, Entry::Leaf(leaf));
    }

    /// Maps the folio in an absent slot by the word of an entry that maps it already.
    ///
    /// # Panics
    /// Where leaves of the table's level do not map as many frames, or the word maps another folio.
    #[inline(always)]
    pub fn install_word<S: FolioSize>(&mut self, slot: usize, dup: DupLeaf<'_, M, S>) {
        let DupLeaf { mapped, word, .. } = dup;
        let level = mapped.size().level().expect("one leaf maps it");
        assert!(self.level == level, "a leaf of {level:?} in a table of {:?}", self.level);
        let maps = |leaf: Leaf| leaf.owned() && leaf.pfn == mapped.pfn();
        let is_its = matches!(M::Format::decode(word, level), Entry::Leaf(leaf) if maps(leaf));
        assert!(is_its, "{word:#x} does not map {:?}", mapped.pfn());
        let _pfn = mapped.into_entry(self.memory);
        self.put_word(slot, word);
    }

    /// Marks an absent slot: as busy, where its page is copied before another CPU knows the tree.
    pub fn mark(&mut self, slot: usize, marker: SlotMarker) {
        self.put(slot, marker.entry());
    }

    /// Relaxed: the store that links the table releases what it holds.
    #[inline(always)]
    pub(super) fn put_word(&mut self, slot: usize, word: u64) {
        let Some(words) = self.words() else { return };
        debug_assert_eq!(words.at(slot).load(Relaxed), 0, "a slot is filled twice");
        words.at(slot).store(word, Relaxed);
        self.used |= 1 << (slot / PART);
    }

    fn put(&mut self, slot: usize, entry: Entry) {
        self.put_word(slot, M::Format::encode(entry, self.level));
    }

    /// Gives the table to the caller that links it, with the parts in use.
    pub(super) fn into_parts(mut self) -> Option<(TableFrame<'m, M>, u32)> {
        Some((self.frame.take()?, self.used))
    }

    /// Has `keep` take the frame for good, with what was put into the table; `Err` with the table where it
    /// does not.
    pub(super) fn give_up<R>(
        mut self,
        keep: impl FnOnce(TableFrame<'m, M>) -> Result<R, TableFrame<'m, M>>,
    ) -> Result<R, Self> {
        let Some(frame) = self.frame.take() else { return Err(self) };
        keep(frame).map_err(|frame| {
            self.frame = Some(frame);
            self
        })
    }

    /// Clears `slot`, and takes back the mapping that a leaf owns.
    fn take(&self, words: Words<'_, M::Cpu>, slot: usize) {
        let word = words.at(slot).load(Relaxed);
        if word == 0 {
            return;
        }
        words.at(slot).store(0, Relaxed);
        if let Entry::Leaf(leaf) = M::Format::decode(word, self.level)
            && leaf.owned()
        {
            let page = VpnRange::new(Vpn(0), Vpn(1));
            Unhooked::frame(page, leaf).put_after(self.memory, |_| ());
        }
    }
}

impl<M: Machine> Drop for UnlinkedTable<'_, M> {
    fn drop(&mut self) {
        // The frame is dropped afterwards, as zero as it was.
        if let Some(words) = self.words() {
            (0..Level::ENTRIES).for_each(|slot| self.take(words, slot));
        }
    }
}

impl<M: Machine> fmt::Debug for UnlinkedTable<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unlinked: {:?}", self.frame)
    }
}
