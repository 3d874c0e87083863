//! Nodes of page indexes: table frames whose slots own frames and further nodes.
//!
//! ```text
//!   RootSlot ──► 0            empty             slot word: (frame number + 1) << 16 | marks << 8 | tag
//!            ──► a frame      tag 0
//!            ──► a node ──► 512 slots, each empty,         tag: its height
//!            │              a frame, a folio or a node
//!            ──► a folio      tag FOLIO | the height of the node in whose place it is, and
//!                             SPLITTABLE, where it is not the hugetlb pool's, or SPLIT, once it was split:
//!                             then a node of its frames may take its place
//! ```
//!
//! Of a folio that is whole a slot has one reference, of one that was split one of each frame. The
//! exchange by which a slot says SPLIT makes its thread the one that splits the folio.
//!
//! *Marks* say what is to be done with a frame: it is to be written back, or that is under way. A node has a
//! mark where something below it may have one. They are set and cleared by exchanges, without a lock.
//!
//! A frame or node enters a slot by one exchange and leaves it by one, so that it has one owner whatever
//! other threads do: the exchange that takes it out gives it to the caller as a value. Which page a slot is
//! for, and what may change it, is the index's business.
//!
//! Readers follow the slots in a read section. A node that was taken out is freed after a grace period;
//! until then a reader may find frames in it, whose numbers own nothing.

use super::page_marks::{MARK_SHIFT, PageMarks};
use super::{DetachedTable, FolioFrames, FrameRef, TableFrame};
use crate::frame::{Init, Memory, Words};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{Rcu, ReadGuard, UniqueId};
use crate::units::{Level, Order, Pfn};

/// The first slot of a page index. Dropping it leaks what it holds.
pub(crate) struct RootSlot<C: Cpu> {
    word: AtomicU64<C>,
    /// The memory that frames and nodes are of.
    memory: UniqueId,
    /// The RCU of the index's readers.
    rcu: UniqueId,
}

/// A slot, found in a read section.
pub(crate) struct PageSlot<'r, 'm: 'r, M: Machine> {
    /// Invariant: the root's word, or that of a node as of [`PageNode`].
    word: &'r AtomicU64<M::Cpu>,
    memory: &'m Memory<'m, M>,
    rcu: UniqueId,
}

/// What a slot holds; stale at once.
pub(crate) enum SlotContent<'r, 'm: 'r, M: Machine> {
    /// Nothing.
    Empty,
    /// A frame, by its number.
    Frame(Pfn),
    /// A folio of as many frames as a node of this height has pages, by the number of its first frame.
    Folio(Pfn, u32),
    /// The same, whose frames have records of their own, or get them now.
    SplitFolio(Pfn, u32),
    /// A node.
    Node(PageNode<'r, 'm, M>),
}

/// A node, found in a read section.
pub(crate) struct PageNode<'r, 'm: 'r, M: Machine> {
    /// Invariant: a table of the memory, which stays one for `'r`.
    words: Words<'m, M::Cpu>,
    height: u32,
    /// The slot that it was found in.
    slot: PageSlot<'r, 'm, M>,
}

/// What was taken out of a slot.
#[must_use = "a node that is not retired is leaked"]
pub(crate) enum TakenSlot<'m, M: Machine> {
    /// Nothing was there.
    Nothing,
    /// A frame or a folio, with the slot's reference.
    Frame(FrameRef<'m, M>),
    /// The frames of a folio that was split, with a reference of each.
    Frames(FolioFrames<'m, M>),
    /// A node, with what its slots hold.
    Node(TakenNode<'m, M>),
}

/// A node that was taken out of its slot. Dropping it leaks the frame, and what its slots still hold.
#[must_use = "a node that is not retired is leaked"]
pub(crate) struct TakenNode<'m, M: Machine> {
    table: DetachedTable<'m, M>,
    memory: &'m Memory<'m, M>,
    rcu: UniqueId,
}

/// Marks and the number lie above the tag.
const NUMBER_SHIFT: u32 = 16;
/// Of a tag: it is a folio's.
const FOLIO: u32 = 1 << 7;
/// Of a folio's tag: it may be split.
const SPLITTABLE: u32 = 1 << 6;
/// Of a folio's tag: it was split, or is being split.
const SPLIT: u32 = 1 << 5;
/// Heights lie below.
const HEIGHTS: u32 = 1 << 5;

/// The word of a slot that holds a frame (tag 0), a folio or a node.
const fn word_of(pfn: Pfn, tag: u32) -> u64 {
    (pfn.0 + 1) << NUMBER_SHIFT | tag as u64
}

/// The height of the node that has as many pages as a folio of this order has frames: 0 for one frame. `None`
/// where there is no such node.
pub(crate) const fn height_of_order(order: Order) -> Option<u32> {
    let bits = order.0 as u32;
    if bits.is_multiple_of(Level::ENTRIES.ilog2()) { Some(bits / Level::ENTRIES.ilog2()) } else { None }
}

/// Number and tag of what a slot holds; `None` where it is empty.
fn decode(word: u64) -> Option<(Pfn, u32)> {
    let pfn = (word >> NUMBER_SHIFT).checked_sub(1)?;
    Some((Pfn(pfn), word as u32 & ((1 << MARK_SHIFT) - 1)))
}

impl<C: Cpu> RootSlot<C> {
    /// An empty slot, for frames and nodes of `memory` and readers of `rcu`.
    pub(crate) const fn new(memory: UniqueId, rcu: UniqueId) -> Self {
        Self { word: AtomicU64::new(0), memory, rcu }
    }

    /// The slot, for the life of a read section.
    ///
    /// # Panics
    /// Where the index is of another memory, or read under another RCU.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn slot<'r, 'm: 'r, M: Machine<Cpu = C>>(
        &'r self,
        memory: &'m Memory<'m, M>,
        reading: &'r ReadGuard<'_, C>,
    ) -> PageSlot<'r, 'm, M> {
        assert!(memory.id() == self.memory, "an index of another memory");
        reading.assert_of(self.rcu);
        PageSlot { word: &self.word, memory, rcu: self.rcu }
    }
}

impl<'r, 'm: 'r, M: Machine> PageSlot<'r, 'm, M> {
    /// What the slot holds.
    #[inline(always)]
    pub(crate) fn content(self) -> SlotContent<'r, 'm, M> {
        // Acquire pairs with the exchanges of `put_frame` and `put_node`.
        match decode(self.word.load(Acquire)) {
            None => SlotContent::Empty,
            Some((pfn, 0)) => SlotContent::Frame(pfn),
            Some((pfn, tag)) if tag & SPLIT != 0 => SlotContent::SplitFolio(pfn, tag % HEIGHTS),
            Some((pfn, tag)) if tag & FOLIO != 0 => SlotContent::Folio(pfn, tag % HEIGHTS),
            // SAFETY: `put_node` alone writes a word whose tag is a height above 0, for a table of this
            // memory that it has attached. Only `TakenSlot::take_out` detaches it, as the word's owner, and
            // it is freed a grace period of `rcu` later. The word was loaded in a read section of `rcu` that
            // lasts for `'r`.
            Some((pfn, height)) => SlotContent::Node(unsafe { self.node(pfn, height) }),
        }
    }

    /// # Safety
    /// The frame is a table of the memory, and stays one for `'r`.
    #[inline(always)]
    unsafe fn node(self, pfn: Pfn, height: u32) -> PageNode<'r, 'm, M> {
        // SAFETY: the caller's promise; slots of a node last for `'r` at most.
        let words = unsafe { self.memory.words(pfn) };
        PageNode { words, height, slot: self }
    }

    /// Moves a reference to a frame, or to a folio that takes the place of a node, into the slot. `Err` with
    /// the reference where the slot is not empty, or no node has as many pages.
    ///
    /// # Panics
    /// Where the frame is of another memory.
    #[track_caller]
    pub(crate) fn put_frame<'f>(self, frame: FrameRef<'f, M>) -> Result<(), FrameRef<'f, M>> {
        frame.assert_of(self.memory);
        let tag = match height_of_order(frame.order()) {
            None => return Err(frame),
            Some(0) => 0,
            Some(height) => FOLIO | height | if frame.is_splittable() { SPLITTABLE } else { 0 },
        };
        match self.word.compare_exchange(0, word_of(frame.pfn(), tag), Release, Relaxed) {
            Ok(_) => {
                // The reference is the slot's from now on.
                frame.into_pfn();
                Ok(())
            }
            Err(_) => Err(frame),
        }
    }

    /// Splits the folio in the slot: each of its frames gets a record, and a reference of the slot's. `false`
    /// where the slot holds no folio that is whole and may be split.
    pub(crate) fn split_folio(self) -> bool {
        let word = self.word.load(Acquire);
        let Some((pfn, tag)) = decode(word).filter(|(_, tag)| tag & SPLITTABLE != 0) else { return false };
        let split = word_of(pfn, tag & !SPLITTABLE | SPLIT);
        if self.word.compare_exchange(word, split, AcqRel, Relaxed).is_err() {
            return false;
        }
        // SAFETY: `put_frame` alone writes a word with SPLITTABLE, for a reference to a folio of an object,
        // which the slot owns then; the exchange took the bit away, so this thread alone splits it. The
        // reference stays until the split has ended: a thread that takes it out of the slot from now on waits
        // for that before it is put (`FolioFrames`).
        unsafe { self.memory.split_object_folio(pfn) };
        true
    }

    /// Puts a node of frames into the slot, in the place of a folio that was split: each of its slots has the
    /// reference of one frame. `false`, and the table is freed, where the slot holds none, of as many frames
    /// as a node has slots.
    ///
    /// # Panics
    /// Where the table is of another memory.
    #[track_caller]
    pub(crate) fn unfold(self, table: TableFrame<'_, M>) -> bool {
        let pfn = table.attach(self.memory);
        // SAFETY: as in `put_node`.
        let node = unsafe { self.node(pfn, 1) };
        let word = self.word.load(Acquire);
        let split = decode(word).filter(|&(_, tag)| tag & SPLIT != 0 && tag % HEIGHTS == 1);
        if let Some((first, _)) = split {
            // Of each frame the folio's word has a reference, from the end of its split on: a thread that
            // takes one out of these slots has it as of the word.
            self.memory.meta_of(first).wait_for_split();
            for slot in 0..Level::ENTRIES {
                node.words.at(slot).store(word_of(first.add(slot as u64), 0), Relaxed);
            }
            // Release: the node's words.
            if self.word.compare_exchange(word, word_of(pfn, 1), AcqRel, Relaxed).is_ok() {
                return true;
            }
            (0..Level::ENTRIES).for_each(|slot| node.words.at(slot).store(0, Relaxed));
        }
        // SAFETY: nothing finds a table that was never linked; its words own nothing.
        if let Some(table) = unsafe { self.memory.detach_table(pfn, Init::Zeroed, None) } {
            // SAFETY: as said.
            unsafe { table.free_unwalked() };
        }
        false
    }

    /// Puts a node into the slot, whose content moves to the first slot of the node. `None`, and the table is
    /// freed, where another thread changes the slot meanwhile.
    ///
    /// # Panics
    /// Where the table is of another memory, or the height is 0 or above 31.
    #[track_caller]
    pub(crate) fn put_node(self, table: TableFrame<'_, M>, height: u32) -> Option<PageNode<'r, 'm, M>> {
        assert!(0 < height && height < HEIGHTS, "a node of height {height}");
        let pfn = table.attach(self.memory);
        // SAFETY: it was attached just now, and only this function knows it until the exchange below. From
        // then on it lasts as the nodes that `content` finds; where the exchange fails, this is not used.
        let node = unsafe { self.node(pfn, height) };
        let mut before = self.word.load(Acquire);
        loop {
            node.words.at(0).store(before, Relaxed);
            // What the old word owns belongs to the node's slot from now on. It does not matter whether it
            // was taken out and put in again since it was loaded: equal words own the same. Release: the
            // node's words.
            let order = if mutant!("page-slot.node-relaxed") { Relaxed } else { AcqRel };
            let word = word_of(pfn, height) | PageMarks::of(before).bits();
            let now = match self.word.compare_exchange(before, word, order, Acquire) {
                Ok(_) => return Some(node),
                Err(now) => now,
            };
            // Marks change without the lock that keeps out other changes.
            if decode(now) != decode(before) {
                break;
            }
            before = now;
        }
        // SAFETY: nothing finds a table that was never linked; its first word owns nothing.
        unsafe { self.memory.detach_table(pfn, Init::Dirty, None)?.free_unwalked() };
        None
    }

    /// The marks of what the slot holds.
    pub(crate) fn marks(self) -> PageMarks {
        // Acquire: pairs with `replace_marks`.
        PageMarks::of(self.word.load(Acquire))
    }

    /// Takes marks from a frame, and gives it others. `false` where the slot does not hold the frame, or that
    /// has not all of those that go.
    pub(crate) fn replace_marks(self, pfn: Pfn, gone: PageMarks, new: PageMarks) -> bool {
        let step = |word: u64| {
            let is_it = decode(word) == Some((pfn, 0)) && PageMarks::of(word).contains(gone);
            is_it.then(|| word & !gone.bits() | new.bits())
        };
        // AcqRel: what was stored to the page before is read after the mark was seen, or taken.
        self.word.update(AcqRel, Acquire, step).is_ok()
    }

    /// Marks a node: something below it may have marks. Or that nothing below it has.
    pub(crate) fn mark_node(self, is_marked: bool) {
        let marks = PageMarks::DIRTY.bits();
        let step = |word: u64| {
            let is_node = decode(word).is_some_and(|(_, tag)| tag != 0 && tag & FOLIO == 0);
            is_node.then_some(if is_marked { word | marks } else { word & !marks })
        };
        // A frame has taken the node's place, or another node the slot's content: what marks it looks again.
        let _looks_again = self.word.update(AcqRel, Relaxed, step);
    }

    /// Takes out what the slot holds.
    pub(crate) fn take(self) -> TakenSlot<'m, M> {
        TakenSlot::take_out(self.word, self.memory, self.rcu)
    }
}

impl<'r, 'm: 'r, M: Machine> PageNode<'r, 'm, M> {
    /// The height: 1 for a node of frames.
    pub(crate) fn height(&self) -> u32 {
        self.height
    }

    /// Slot `index`, of which the lowest nine bits count.
    #[inline(always)]
    pub(crate) fn slot(&self, index: usize) -> PageSlot<'r, 'm, M> {
        PageSlot { word: self.words.at(index % Level::ENTRIES), ..self.slot }
    }
}

impl<'m, M: Machine> TakenSlot<'m, M> {
    /// Takes out what a slot holds: `word` is a root's, or that of a node, of a page index of `memory` and
    /// `rcu`.
    fn take_out(word: &AtomicU64<M::Cpu>, memory: &'m Memory<'m, M>, rcu: UniqueId) -> Self {
        // Acquire pairs with the exchanges of `put_frame` and `put_node`.
        let taken = if mutant!("page-slot.taken-twice") {
            let taken = word.load(Acquire);
            word.store(0, Release);
            taken
        } else {
            word.swap(0, AcqRel)
        };
        match decode(taken) {
            None => Self::Nothing,
            Some((pfn, tag)) if tag & SPLIT != 0 => {
                let order = Order((tag % HEIGHTS * Level::ENTRIES.ilog2()) as u8);
                // SAFETY: `split_folio` alone writes a word with SPLIT, in the place of one that owned a
                // reference to a folio of an object of this order, which it splits; an exchange took it out,
                // so once.
                Self::Frames(unsafe { FolioFrames::new(memory, pfn, order) })
            }
            Some((pfn, tag)) if tag == 0 || tag & FOLIO != 0 => {
                // SAFETY: `put_frame` writes a word with such a tag, and gave the reference to it; and
                // `unfold`, of a frame of which the folio's word had one. An exchange took it out, so once.
                Self::Frame(unsafe { FrameRef::from_pfn(memory, pfn) })
            }
            Some((pfn, _)) => {
                // SAFETY: the word was the only one that names the table, and does not any more. Readers that
                // loaded it before are in sections of `rcu`.
                let table = unsafe { memory.detach_table(pfn, Init::Dirty, Some(rcu)) };
                table.map_or(Self::Nothing, |table| Self::Node(TakenNode { table, memory, rcu }))
            }
        }
    }
}

impl<'m, M: Machine> TakenNode<'m, M> {
    /// Takes out what each slot holds, in order.
    pub(crate) fn take_each(&self, mut each: impl FnMut(TakenSlot<'m, M>)) {
        // SAFETY: a detached table stays a table until it is retired or freed, which takes this value.
        let words = unsafe { self.memory.words(self.table.pfn()) };
        (0..Level::ENTRIES).for_each(|slot| each(TakenSlot::take_out(words.at(slot), self.memory, self.rcu)));
    }

    /// Frees the node once no reader can hold it. May wait for readers.
    ///
    /// # Panics
    /// Where `rcu` is not the one of the index's readers.
    pub(crate) fn retire(self, rcu: &Rcu<M::Cpu>) {
        self.table.retire(rcu);
    }
}

impl<M: Machine> Clone for PageSlot<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for PageSlot<'_, '_, M> {}
