//! Freeing: each frame goes back to its region.
//!
//! A region that this CPU has reserved takes its frames at once, under its lock, and so does every region
//! while the zone is settled. To any other region single frames go without the lock: the next CPU that takes
//! the lock collects them.

use super::buddy::ranges;
use super::hint::Hint;
use super::region::Lists;
use super::returned::Pushed;
use super::{BlockList, Zone};
use crate::frame::{FrameTable, Init};
use crate::machine::Cpu;
use crate::sync::PreemptGuard;
use crate::sync::atomic::Ordering::*;
use crate::units::{Order, Pfn, PfnRange};

impl<C: Cpu> Zone<'_, C> {
    /// Frees a block.
    pub(in crate::frame) fn free(&self, table: &FrameTable<'_, C>, pfn: Pfn, order: Order, init: Init) {
        self.edit(table, self.regions.of(pfn), |lists| {
            lists.buddy.free(table, pfn, order, init);
            self.earn(lists, order.frames());
        });
    }

    /// Frees single frames, packed as in a CPU's cache, whose records say that they are cached. Those of a
    /// region that follow each other are freed together.
    pub(in crate::frame) fn free_batch(&self, table: &FrameTable<'_, C>, frames: &[u64]) {
        if self.regions.is_one() {
            return self.edit(table, 0, |lists| {
                lists.buddy.free_batch(table, frames);
                self.earn(lists, frames.len() as u64);
            });
        }
        let preempt_off = PreemptGuard::<C>::new();
        let own = self.regions.own().this_cpu(&preempt_off);
        let parts = |(run, init)| self.regions.parts(run).map(move |(at, part)| (at, part, init));
        let mut parts = ranges(frames).flat_map(parts).peekable();
        while let Some(&(at, part, _)) = parts.peek() {
            let goes_without = !own.has(at) && !self.budget.is_exact();
            if goes_without && self.push(table, at, part) {
                parts.next();
                continue;
            }
            self.edit(table, at, |lists| {
                while let Some((_, part, init)) = parts.next_if(|(of, ..)| *of == at) {
                    lists.buddy.free_range(table, part.start, part.end, init);
                    self.earn(lists, part.len());
                }
            });
        }
    }

    /// Pushes a run of cached frames of a region. `false` where it has so many that they should be collected.
    pub(super) fn push(&self, table: &FrameTable<'_, C>, at: usize, run: PfnRange) -> bool {
        let pushed = self.regions.region(at).returned.push(table, run);
        if pushed == Pushed::Many {
            self.regions.hint(at).into_iter().for_each(Hint::note_returned);
        }
        pushed != Pushed::TooMany
    }

    /// Frees a range of frames: at start, or of a block that was larger than the largest.
    pub(in crate::frame) fn free_range(&self, table: &FrameTable<'_, C>, frames: PfnRange, init: Init) {
        for (at, part) in self.regions.parts(frames) {
            self.edit(table, at, |lists| {
                lists.buddy.free_range(table, part.start, part.end, init);
                self.earn(lists, part.len());
            });
        }
    }

    /// Whether blocks may be [freed together](Self::free_deferred): they are of one region.
    pub(in crate::frame) fn are_of_one_region(&self, a: Pfn, b: Pfn) -> bool {
        self.regions.of(a) == self.regions.of(b) || mutant!("zone.list-across-regions")
    }

    /// Frees blocks of one region that were deferred.
    pub(in crate::frame) fn free_deferred(&self, table: &FrameTable<'_, C>, blocks: &BlockList) {
        let Some((first, _)) = blocks.ends() else { return };
        let counts_first = mutant!("zone.counted-before-freed");
        if counts_first {
            self.deferred.fetch_sub(blocks.frames(), Release);
        }
        // The budget has counted them since start.
        self.edit(table, self.regions.of(first), |lists| lists.buddy.splice(table, blocks));
        if !counts_first {
            self.deferred.fetch_sub(blocks.frames(), Release);
        }
    }

    /// Collects what was given back to all regions.
    pub(in crate::frame) fn collect_all(&self, table: &FrameTable<'_, C>) {
        (0..self.regions.len()).for_each(|at| self.edit(table, at, |_| ()));
    }

    /// Frames were freed in a region.
    pub(super) fn earn(&self, lists: &mut Lists<C>, frames: u64) {
        if self.budget.is_exact() {
            self.budget.add(frames);
        } else {
            lists.credit.set(lists.credit.get() + frames);
        }
    }

    /// Edits the lists of a region under its lock, after what was given back to it was collected.
    #[inline]
    pub(super) fn edit<R>(
        &self,
        table: &FrameTable<'_, C>,
        at: usize,
        edit: impl FnOnce(&mut Lists<C>) -> R,
    ) -> R {
        let mut lists = self.regions.region(at).lock();
        if let Some(hint) = self.regions.hint(at) {
            self.collect(table, at, hint, &mut lists);
        }
        let result = edit(&mut lists);
        self.regions.note(at, &lists.buddy);
        self.note_largest(&lists);
        result
    }

    #[inline]
    fn collect(&self, table: &FrameTable<'_, C>, at: usize, hint: &Hint<C>, lists: &mut Lists<C>) {
        let returned = &self.regions.region(at).returned;
        let is_late = mutant!("zone.returned-cleared-late");
        let may_have = if is_late { !returned.is_empty_racy() } else { hint.clear_returned() };
        if !may_have && returned.is_empty_racy() {
            return;
        }
        let mut frames = 0;
        returned.take_all(table, |run, init| {
            lists.buddy.free_range(table, run.start, run.end, init);
            frames += run.len();
        });
        if is_late {
            hint.clear_returned();
        }
        self.earn(lists, frames);
    }

    /// Notes the order of the largest free block. Of one region it is exact; of several it is what one of
    /// them has, or had when all were asked last.
    #[inline]
    fn note_largest(&self, lists: &Lists<C>) {
        let noted = self.largest_block.load(Relaxed);
        if !self.regions.is_one() && noted > u64::from(Order::MAX.0) {
            return;
        }
        let largest = lists.buddy.largest().map_or(0, |order| u64::from(order.0) + 1);
        let is_news = if self.regions.is_one() { noted != largest } else { noted < largest };
        if is_news && !mutant!("zone.largest-block-not-noted") {
            self.largest_block.store(largest, Relaxed);
        }
    }
}
