//! Which pages of an index are to be written back: marks, and the search for them.
//!
//! ```text
//!   mark     the page's slot ─► fence ─► each node above that has no mark ─► the way is looked at again
//!   search   a node without a mark is passed over; one below which nothing is found loses its mark
//!              ─► fence ─► all below it is looked at again: what was marked meanwhile gives it back
//! ```
//!
//! One search at a time, under the object's lock. Of a mark and a search at once, one sees the other: each
//! has written its word before the fence, and reads that of the other behind it. The index may grow between:
//! a node takes the root's place, with the old root's marks. So whatever marks a page goes its way again
//! until it finds all marks set.

use super::page_index::{PageIndex, way_below};
use crate::frame::{Memory, PageMarks, PageNode, PageSlot, SlotContent};
use crate::machine::{Cpu, Machine};
use crate::sync::ReadGuard;
use crate::sync::atomic::{Ordering::*, fence};
use crate::units::{Level, Pfn};
use core::ops::Range;

/// A page that has marks.
pub struct MarkedPage {
    /// The page.
    pub page: u64,
    /// Its frame.
    pub pfn: Pfn,
    /// Its marks.
    pub marks: PageMarks,
}

impl<C: Cpu> PageIndex<C> {
    /// Marks a page as dirty. `false` where the index does not have it.
    pub fn mark_dirty<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> bool {
        loop {
            let Some(way) = self.way_of_frame(memory, page, reading) else { return false };
            let mut is_marked = way.slot.marks().contains(PageMarks::DIRTY);
            if !is_marked {
                way.slot.replace_marks(way.pfn, PageMarks::NONE, PageMarks::DIRTY);
            }
            if !mutant!("dirty.mark-not-fenced") {
                fence::<C>(SeqCst);
            }
            for node in way.nodes() {
                if node.marks().is_empty() {
                    node.mark_node(true);
                    is_marked = false;
                }
            }
            if is_marked || mutant!("dirty.way-not-looked-at-again") {
                return true;
            }
        }
    }

    /// Whether the page has these marks.
    pub fn has_marks<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        (page, marks): (u64, PageMarks),
        reading: &ReadGuard<'_, C>,
    ) -> bool {
        let way = self.way_of_frame(memory, page, reading);
        way.is_some_and(|way| way.slot.marks().contains(marks))
    }

    /// Changes the marks of a page: takes some, and gives it others. `false` where the index does not have
    /// the frame there, or that has not those that go.
    pub fn replace_marks<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        (page, pfn): (u64, Pfn),
        (gone, new): (PageMarks, PageMarks),
        reading: &ReadGuard<'_, C>,
    ) -> bool {
        let way = self.way_of_frame(memory, page, reading);
        way.is_some_and(|way| way.pfn == pfn && way.slot.replace_marks(pfn, gone, new))
    }

    /// The first of the pages that has a mark. The object's lock is held: a search that takes the mark of a
    /// node gives it back before the next one.
    pub fn first_marked<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        pages: &Range<u64>,
        reading: &ReadGuard<'_, C>,
    ) -> Option<MarkedPage> {
        if pages.is_empty() {
            return None;
        }
        find(self.root_slot(memory, reading), 0, pages)
    }
}

/// The first marked page of what a slot holds, whose pages begin at `first`.
fn find<M: Machine>(slot: PageSlot<'_, '_, M>, first: u64, pages: &Range<u64>) -> Option<MarkedPage> {
    let marks = slot.marks();
    match slot.content() {
        _ if marks.is_empty() => None,
        SlotContent::Frame(pfn) => pages.contains(&first).then_some(MarkedPage { page: first, pfn, marks }),
        SlotContent::Node(node) => {
            let (below, end) = way_below(&node, first);
            if let Some(found) = find_below(&node, (first, below), pages) {
                return Some(found);
            }
            if pages.start <= first && end <= pages.end {
                slot.mark_node(false);
                if !mutant!("dirty.search-not-fenced") {
                    fence::<M::Cpu>(SeqCst);
                }
                if is_any_marked(&node) {
                    slot.mark_node(true);
                    return find_below(&node, (first, below), pages);
                }
            }
            None
        }
        SlotContent::Empty | SlotContent::Folio(..) | SlotContent::SplitFolio(..) => None,
    }
}

/// The same, of a node, each slot of which has `below` pages.
fn find_below<M: Machine>(
    node: &PageNode<'_, '_, M>,
    (first, below): (u64, u64),
    pages: &Range<u64>,
) -> Option<MarkedPage> {
    let start = pages.start.saturating_sub(first) / below;
    let end = pages.end.saturating_sub(first).div_ceil(below).min(Level::ENTRIES as u64);
    (start..end).find_map(|nth| find(node.slot(nth as usize), first + nth * below, pages))
}

/// The first page that is being written, of what a slot holds whose pages begin at `first`. The object's lock
/// is held, so that no writing begins; a node of such a page has a mark.
pub(super) fn first_writing<M: Machine>(slot: PageSlot<'_, '_, M>, first: u64) -> Option<u64> {
    let marks = slot.marks();
    match slot.content() {
        _ if marks.is_empty() => None,
        SlotContent::Frame(_) => marks.contains(PageMarks::WRITING).then_some(first),
        SlotContent::Node(node) => {
            let (below, _) = way_below(&node, first);
            let nth_page = |nth: usize| first + nth as u64 * below;
            (0..Level::ENTRIES).find_map(|nth| first_writing(node.slot(nth), nth_page(nth)))
        }
        SlotContent::Empty | SlotContent::Folio(..) | SlotContent::SplitFolio(..) => None,
    }
}

fn is_any_marked<M: Machine>(node: &PageNode<'_, '_, M>) -> bool {
    (0..Level::ENTRIES).any(|nth| !node.slot(nth).marks().is_empty())
}
