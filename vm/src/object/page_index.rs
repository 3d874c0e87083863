//! Page of the object to its frame: a tree of nodes of 512 slots.
//!
//! ```text
//!   root slot:  height 0: the frame of page 0     1: a node, pages below 512     2: a node of nodes, ...
//! ```
//!
//! A folio of 512 frames lies in place of a node of height 1, one of 512 times as many of height 2. So one
//! index may hold folios of several sizes; what it holds at one page stays until that is taken out. A
//! folio that was split stays in its place, too: its frames have records of their own then.
//!
//! The slots own the frames and nodes (`frame::page_node`); this file says which page a slot is for. Readers
//! follow it in a read section, without a lock. It changes under the object's lock. It grows as a taller node
//! takes the root's place, with the old root in its first slot; what is taken out of it goes in pieces as
//! large as they are, and nodes with all that is below them.

use super::dirty::first_writing;
use crate::frame::{
    FrameRef, Memory, PageNode, PageSlot, Priority, RootSlot, SlotContent, TakenSlot, height_of_order,
};
use crate::machine::{Cpu, Machine};
use crate::sync::{Rcu, ReadGuard, UniqueId};
use crate::units::{Level, Order, Pfn};
use core::ops::Range;

/// The index of one object.
pub struct PageIndex<C: Cpu> {
    root: RootSlot<C>,
}

/// What an index has of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundPage {
    /// Nothing, and where a node of 512 frames with this page would be, nothing either: a folio may be put
    /// there.
    NoneOfFolio,
    /// Nothing.
    None,
    /// Its frame, which has a record.
    Frame(Pfn),
    /// Its frame, one of a folio that is whole: it has no record.
    InFolio(Pfn),
    /// Its frame, one of a folio that was split, or is being split: it has a record then.
    InSplitFolio(Pfn),
}

impl FoundPage {
    /// The page's frame.
    pub fn frame(self) -> Option<Pfn> {
        match self {
            Self::Frame(pfn) | Self::InFolio(pfn) | Self::InSplitFolio(pfn) => Some(pfn),
            Self::None | Self::NoneOfFolio => None,
        }
    }
}

/// The way to a frame.
pub(super) struct FrameWay<'r, 'm: 'r, M: Machine> {
    /// Slots of the nodes that lead to it, from the root on.
    nodes: [Option<PageSlot<'r, 'm, M>>; MAX_HEIGHT as usize],
    /// Its slot.
    pub slot: PageSlot<'r, 'm, M>,
    /// The frame.
    pub pfn: Pfn,
}

impl<'r, 'm: 'r, M: Machine> FrameWay<'r, 'm, M> {
    /// The slots of the nodes above the frame, from the lowest on.
    pub fn nodes(&self) -> impl Iterator<Item = PageSlot<'r, 'm, M>> {
        self.nodes.into_iter().flatten().rev()
    }
}

/// The pages below each slot of a node whose pages begin at `first`, and where those of the node end.
pub(super) fn way_below<M: Machine>(node: &PageNode<'_, '_, M>, first: u64) -> (u64, u64) {
    (1 << (SHIFT * (node.height() - 1)), first + (1 << (SHIFT * node.height())))
}

/// A slot, what it holds, and the height of a node in its place.
type WayTo<'r, 'm, M> = (PageSlot<'r, 'm, M>, SlotContent<'r, 'm, M>, u32);

/// log2 of the slots in a node.
const SHIFT: u32 = Level::ENTRIES.ilog2();
/// Heights 0 to 5 cover [`MAX_PAGES`].
const MAX_HEIGHT: u32 = 5;
/// The most pages that an object has: 2^45, more than a space.
pub const MAX_PAGES: u64 = 1 << (SHIFT * MAX_HEIGHT);

/// The slot for a page in a node of `height`.
fn index_of(page: u64, height: u32) -> usize {
    (page >> (SHIFT * (height - 1))) as usize & (Level::ENTRIES - 1)
}

/// Whether a root of `height` has a slot for the page.
fn reaches(page: u64, height: u32) -> bool {
    page >> (SHIFT * height) == 0
}

/// The frame of a page in the folio that begins at `first`, in place of a node of `height`.
fn frame_in(first: Pfn, height: u32, page: u64) -> Pfn {
    first.add(page & ((1 << (SHIFT * height)) - 1))
}

impl<C: Cpu> PageIndex<C> {
    /// An empty index, for frames of `memory` and readers of `rcu`.
    pub fn new(memory: UniqueId, rcu: UniqueId) -> Self {
        Self { root: RootSlot::new(memory, rcu) }
    }

    /// The slot in which the way to a page ends, what it holds, and the height of a node in its place. `Err`
    /// with the height that the root reaches, where that is not as far as the page.
    #[inline(always)]
    fn way_to<'r, 'm: 'r, M: Machine<Cpu = C>>(
        &'r self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &'r ReadGuard<'_, C>,
    ) -> Result<WayTo<'r, 'm, M>, u32> {
        let mut slot = self.root.slot(memory, reading);
        let mut content = slot.content();
        let mut place = match &content {
            SlotContent::Empty => MAX_HEIGHT,
            SlotContent::Frame(_) => 0,
            SlotContent::Folio(_, height) | SlotContent::SplitFolio(_, height) => *height,
            SlotContent::Node(node) => node.height(),
        };
        if !reaches(page, place) {
            return Err(place);
        }
        while let SlotContent::Node(node) = content {
            place = node.height() - 1;
            slot = node.slot(index_of(page, node.height()));
            content = slot.content();
        }
        Ok((slot, content, place))
    }

    /// The slot of the root.
    pub(super) fn root_slot<'r, 'm: 'r, M: Machine<Cpu = C>>(
        &'r self,
        memory: &'m Memory<'m, M>,
        reading: &'r ReadGuard<'_, C>,
    ) -> PageSlot<'r, 'm, M> {
        self.root.slot(memory, reading)
    }

    /// The way to the frame of a page; `None` where there is none, or it is one of a folio.
    pub(super) fn way_of_frame<'r, 'm: 'r, M: Machine<Cpu = C>>(
        &'r self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &'r ReadGuard<'_, C>,
    ) -> Option<FrameWay<'r, 'm, M>> {
        let mut slot = self.root.slot(memory, reading);
        let mut nodes = [None; MAX_HEIGHT as usize];
        let mut height = MAX_HEIGHT;
        for place in 0.. {
            match slot.content() {
                // The root reaches the pages of the node in it, or page 0.
                SlotContent::Node(node) if place > 0 || reaches(page, node.height()) => {
                    *nodes.get_mut(place)? = Some(slot);
                    height = node.height();
                    slot = node.slot(index_of(page, height));
                }
                SlotContent::Frame(pfn) if page == 0 || height == 1 => {
                    return Some(FrameWay { nodes, slot, pfn });
                }
                _ => break,
            }
        }
        None
    }

    /// The frame of a page; stale at once.
    #[inline]
    pub fn lookup<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Option<Pfn> {
        self.find(memory, page, reading).frame()
    }

    /// What it has of a page; stale at once.
    #[inline]
    pub fn find<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> FoundPage {
        match self.way_to(memory, page, reading) {
            // The root holds the frame of page 0.
            Err(0) if reaches(page, 1) => FoundPage::None,
            Err(_) => FoundPage::NoneOfFolio,
            Ok((_, SlotContent::Frame(pfn), _)) => FoundPage::Frame(pfn),
            Ok((_, SlotContent::Folio(pfn, height), _)) => FoundPage::InFolio(frame_in(pfn, height, page)),
            Ok((_, SlotContent::SplitFolio(pfn, height), _)) => {
                FoundPage::InSplitFolio(frame_in(pfn, height, page))
            }
            Ok((_, _, 0)) => FoundPage::None,
            Ok(_) => FoundPage::NoneOfFolio,
        }
    }

    /// The slot of the folio that a page lies in; `None` where it lies in none.
    pub fn slot_of_folio<'r, 'm: 'r, M: Machine<Cpu = C>>(
        &'r self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &'r ReadGuard<'_, C>,
    ) -> Option<PageSlot<'r, 'm, M>> {
        match self.way_to(memory, page, reading) {
            Ok((slot, SlotContent::Folio(..), _)) => Some(slot),
            _ => None,
        }
    }

    /// The slot for a folio of `order` at a page, which is one that such a folio may begin at; adds missing
    /// nodes on its path. The object's lock is held. `None` if there is no memory for a node, where nodes
    /// already added stay, empty; and where the page is one of a larger folio, or no slot has folios of this
    /// order.
    pub fn place<'r, 'm: 'r, M: Machine<Cpu = C>>(
        &'r self,
        memory: &'m Memory<'m, M>,
        (page, order): (u64, Order),
        reading: &'r ReadGuard<'_, C>,
    ) -> Option<PageSlot<'r, 'm, M>> {
        let mut slot = self.root.slot(memory, reading);
        let bottom = height_of_order(order)?;
        let least = (bottom..=MAX_HEIGHT).find(|&height| reaches(page, height))?;
        let mut height = match slot.content() {
            SlotContent::Empty => least,
            SlotContent::Frame(_) => 0,
            SlotContent::Folio(_, height) | SlotContent::SplitFolio(_, height) => height,
            SlotContent::Node(node) => node.height(),
        };
        while height < least {
            height += 1;
            slot.put_node(memory.alloc_table(Priority::NoWait)?, height)?;
        }
        for height in (bottom + 1..=height).rev() {
            let node = match slot.content() {
                SlotContent::Node(node) => node,
                SlotContent::Empty => slot.put_node(memory.alloc_table(Priority::NoWait)?, height)?,
                SlotContent::Frame(_) | SlotContent::Folio(..) | SlotContent::SplitFolio(..) => return None,
            };
            slot = node.slot(index_of(page, height));
        }
        Some(slot)
    }

    /// Takes out what the index has at the beginning of the pages, where that lies in them as a whole: a node
    /// with all below it, a folio, a frame. Returns that, and the page from which on the next step goes on.
    /// The object's lock is held.
    ///
    /// A folio of which the pages are a part is split, and a node takes its place, so that the next step
    /// takes frames; where there is no memory for that node, the folio stays, and a frame of it is returned.
    /// What has a page that is being written stays, if `leaves_writing`.
    pub fn take_first<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        pages: &Range<u64>,
        leaves_writing: bool,
        reading: &ReadGuard<'_, C>,
    ) -> (TakenPages<'m, M>, u64) {
        let mut slot = self.root.slot(memory, reading);
        // The pages that the slot is for: of the root those of what it holds.
        let mut first = 0;
        loop {
            let content = slot.content();
            let (height, folio) = match &content {
                // Nothing, in a root.
                SlotContent::Empty => return (TakenPages::Nothing, pages.end),
                SlotContent::Frame(_) => (0, None),
                SlotContent::Folio(pfn, height) | SlotContent::SplitFolio(pfn, height) => {
                    (*height, Some(*pfn))
                }
                SlotContent::Node(node) => (node.height(), None),
            };
            let end = first + (1 << (SHIFT * height));
            if pages.start >= end {
                return (TakenPages::Nothing, pages.end);
            }
            if pages.start <= first && end <= pages.end {
                let writing = if leaves_writing { first_writing(slot, first) } else { None };
                return match writing {
                    Some(page) => (TakenPages::Writing(page), pages.start),
                    None => (TakenPages::Taken(slot.take()), end),
                };
            }
            let part = pages.start.max(first)..pages.end.min(end);
            if let Some(pfn) = folio {
                slot.split_folio();
                let Some(table) = memory.alloc_table(Priority::NoWait) else {
                    // The slot has a reference of it, and is locked.
                    let left = memory.try_get(pfn.add(part.start - first));
                    return (left.map_or(TakenPages::Nothing, TakenPages::Left), part.start + 1);
                };
                if !slot.unfold(table) {
                    return (TakenPages::Nothing, part.end);
                }
                continue;
            }
            let SlotContent::Node(node) = content else { return (TakenPages::Nothing, part.end) };
            let below = 1 << (SHIFT * (height - 1));
            let Some((nth, found)) = first_used(&node, first, below, &part) else {
                return (TakenPages::Nothing, part.end);
            };
            first += nth * below;
            slot = found;
        }
    }

    /// Takes all frames and nodes out. The object is dead, so that none is put in any more.
    pub fn take_all<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        reading: &ReadGuard<'_, C>,
    ) -> TakenSlot<'m, M> {
        self.root.slot(memory, reading).take()
    }
}

/// What a step has taken out of an index.
pub enum TakenPages<'m, M: Machine> {
    /// Nothing was there.
    Nothing,
    /// What was there.
    Taken(TakenSlot<'m, M>),
    /// Nothing: one frame, which stays in the object.
    Left(FrameRef<'m, M>),
    /// Nothing: this page is being written.
    Writing(u64),
}

/// The first slot of a node, whose pages begin at `first` and of which each slot has `below`, that holds
/// something of the pages: its number, and the slot.
fn first_used<'r, 'm: 'r, M: Machine>(
    node: &PageNode<'r, 'm, M>,
    first: u64,
    below: u64,
    part: &Range<u64>,
) -> Option<(u64, PageSlot<'r, 'm, M>)> {
    let slots = (part.start - first) / below..(part.end - first).div_ceil(below);
    let mut slots = slots.map(|nth| (nth, node.slot(nth as usize)));
    slots.find(|(_, slot)| !matches!(slot.content(), SlotContent::Empty))
}

/// Gives frames and nodes back: a frame's reference at once, a node after a grace period. May wait for
/// readers.
pub fn give_back<M: Machine>(taken: TakenSlot<'_, M>, rcu: &Rcu<M::Cpu>) {
    match taken {
        TakenSlot::Nothing => {}
        TakenSlot::Frame(frame) => drop(frame),
        TakenSlot::Frames(frames) => drop(frames),
        TakenSlot::Node(node) => {
            node.take_each(|below| give_back(below, rcu));
            node.retire(rcu);
        }
    }
}
