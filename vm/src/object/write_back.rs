//! Dirty pages of an object, a batch at a time, from the mark to the end of writing back.
//!
//! ```text
//!   dirty ── begin ──► writing ── end, written ──► clean
//!     ▲                  │  │
//!     └─ end, not ───────┘  └ a store: dirty too ──► writing ends: dirty
//! ```
//!
//! A page that is *writing* belongs to the caller that has begun it; others pass it over, and may wait for
//! its end.

use super::shared::Object;
use crate::frame::{FrameRef, Memory, PageMarks};
use crate::machine::{Cpu, Machine};
use crate::sync::ReadGuard;
use core::ops::Range;

/// Pages that are written back together, at most: those whose entries are protected by one flush for each
/// view.
pub(crate) const BATCH: usize = if cfg!(loom) { 2 } else { 32 };

/// A page that this caller writes back.
pub(crate) struct DirtyPage<'m, M: Machine> {
    /// The page.
    pub page: u64,
    /// Its frame.
    pub frame: FrameRef<'m, M>,
}

/// Pages that this caller writes back, in order.
pub(crate) struct DirtyBatch<'m, M: Machine> {
    pages: [Option<DirtyPage<'m, M>>; BATCH],
    /// Where the search for the next batch goes on.
    pub next: u64,
    /// Dirty pages that another caller is writing: from the first to the last that was passed over.
    pub passed: Option<Range<u64>>,
}

impl<'m, M: Machine> DirtyBatch<'m, M> {
    /// The pages from the first to the last, others among them; `None` where the batch is empty.
    pub(crate) fn span(&self) -> Option<Range<u64>> {
        let mut pages = self.pages().map(|dirty| dirty.page);
        let first = pages.next()?;
        Some(first..pages.last().unwrap_or(first) + 1)
    }

    /// Its pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &DirtyPage<'m, M>> {
        self.pages.iter().flatten()
    }
}

impl<C: Cpu> Object<C> {
    /// Marks a page as dirty. `false` where the object does not have it.
    pub(crate) fn mark_dirty<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> bool {
        self.index().mark_dirty(memory, page, reading)
    }

    /// Whether a page is dirty; stale at once.
    pub(crate) fn is_dirty<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> bool {
        self.index().has_marks(memory, (page, PageMarks::DIRTY), reading)
    }

    /// Whether a page is being written; stale at once.
    pub(crate) fn is_writing<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> bool {
        self.index().has_marks(memory, (page, PageMarks::WRITING), reading)
    }

    /// Takes dirty pages, from the first of `pages` on, as those that are being written: clean, but for what
    /// is stored from now on.
    pub(crate) fn begin_writing<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        pages: &Range<u64>,
        reading: &ReadGuard<'_, C>,
    ) -> DirtyBatch<'m, M> {
        let mut batch = DirtyBatch { pages: [const { None }; BATCH], next: pages.end, passed: None };
        let mut rest = pages.clone();
        // No frame leaves the index meanwhile.
        let _counts = self.counts.lock();
        for place in &mut batch.pages {
            *place = self.begin_next(memory, (&mut rest, &mut batch.passed), reading);
            if place.is_none() {
                return batch;
            }
        }
        batch.next = rest.start;
        batch
    }

    fn begin_next<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        (rest, passed): (&mut Range<u64>, &mut Option<Range<u64>>),
        reading: &ReadGuard<'_, C>,
    ) -> Option<DirtyPage<'m, M>> {
        const DIRTY: PageMarks = PageMarks::DIRTY;
        loop {
            let found = self.index().first_marked(memory, rest, reading)?;
            rest.start = found.page + 1;
            if !found.marks.contains(DIRTY) {
                continue;
            }
            if found.marks.contains(PageMarks::WRITING) {
                let start = passed.take().map_or(found.page, |passed| passed.start);
                *passed = Some(start..found.page + 1);
                continue;
            }
            let new =
                if mutant!("write-back.page-not-claimed") { PageMarks::NONE } else { PageMarks::WRITING };
            // As many references as can be counted: it stays dirty.
            let Some(frame) = memory.try_get(found.pfn) else { continue };
            if self.index().replace_marks(memory, (found.page, found.pfn), (DIRTY, new), reading) {
                return Some(DirtyPage { page: found.page, frame });
            }
        }
    }

    /// Ends the writing of a page, which stays dirty where it was not written.
    pub(crate) fn end_writing<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        dirty: &DirtyPage<'_, M>,
        is_written: bool,
        reading: &ReadGuard<'_, C>,
    ) {
        if !is_written && !mutant!("write-back.failed-page-clean") {
            self.index().mark_dirty(memory, dirty.page, reading);
        }
        // Else the page has left the object.
        let (at, marks) = ((dirty.page, dirty.frame.pfn()), (PageMarks::WRITING, PageMarks::NONE));
        let _is_there = self.index().replace_marks(memory, at, marks, reading);
    }

    /// The first of the pages that is dirty.
    #[cfg(all(test, loom))]
    pub(crate) fn first_dirty<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        pages: &Range<u64>,
        reading: &ReadGuard<'_, C>,
    ) -> Option<u64> {
        let _counts = self.counts.lock();
        self.index().first_marked(memory, pages, reading).map(|found| found.page)
    }

    /// Makes a page clean, as if it were written.
    #[cfg(all(test, loom))]
    pub(crate) fn clean<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> bool {
        let found = self.index().first_marked(memory, &(page..page + 1), reading);
        let marks = (PageMarks::DIRTY, PageMarks::NONE);
        found.is_some_and(|found| self.index().replace_marks(memory, (page, found.pfn), marks, reading))
    }

    /// The first of the pages that is being written, by whatever caller.
    pub(crate) fn first_writing<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        pages: &Range<u64>,
        reading: &ReadGuard<'_, C>,
    ) -> Option<u64> {
        let mut rest = pages.clone();
        let _counts = self.counts.lock();
        loop {
            let found = self.index().first_marked(memory, &rest, reading)?;
            if found.marks.contains(PageMarks::WRITING) {
                return Some(found.page);
            }
            rest.start = found.page + 1;
        }
    }
}
