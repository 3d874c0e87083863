//! Collects unhooked translations, flushes them once, and frees frames and tables after the flush.
//!
//! A gather begins before the first edit and ends after the flush; the space's count of pending flushes has
//! been raised before and is lowered afterwards (protocol P8). It knows the span of the pages edited. When it
//! ends it flushes the span once. If it found nothing to edit but another gather of the space is under way,
//! it flushes the whole range of the call, because an entry that it read as absent may have been cleared by
//! the other gather, whose flush has not ended: of two MADV_DONTNEED of one page, the second must not return
//! before the page has left every TLB.
//!
//! # One flush, however many frames
//!
//! A gather allocates nothing. Frames that one entry alone mapped are linked through their records; of those
//! that others may map too it keeps few. Where it has no place for one more, an edit of two passes leaves the
//! others in their slots, as markers that own them, flushes once, and puts them in the second pass
//! ([`put_deferred`](Gather::put_deferred)):
//!
//! ```text
//!   1  leaf ──► PendingFree(frame)      tables that are detached go as they are, with the markers in them
//!   2  flush                            all that was added; the batch puts what detached tables hold
//!   3  PendingFree(frame) ──► absent    and the frame is put
//! ```
//!
//! An edit that several workers do in parts ([`GatherParts`](super::GatherParts)) goes the same way, with one
//! flush for all parts.
//!
//! One edit of a space at a time may do so; another one beside it, and one of a space that no CPU runs, whose
//! flushes interrupt no CPU, flushes whenever its places are full.

use super::edited::{Edited, span_of};
use super::space::Deferral;
use super::{PendingFlush, Shootdown};
use crate::frame::{DetachedTable, Flushed, GatherBatch, IfShared, Memory, Unhooked, UnhookedLists};
use crate::machine::{FlushRange, Machine};
use crate::sync::Rcu;
use crate::units::VpnRange;
use crate::work::WorkerPool;
use core::fmt;

/// An edit of a space under way.
pub struct Gather<'a, 'm, M: Machine> {
    pub(super) memory: &'a Memory<'m, M>,
    pub(super) rcu: &'a Rcu<'a, M::Cpu>,
    pub(super) shootdown: &'a Shootdown<'a, M::Cpu>,
    pub(super) pending: &'a PendingFlush<'a, M::Cpu>,
    /// The range of the operation.
    asked: VpnRange,
    /// The pages edited since the last flush.
    pub(super) edited: Edited,
    pub(super) batch: GatherBatch,
    /// What parts of the edit have unhooked; freed after the first pass.
    pub(super) lists: UnhookedLists,
    /// Flushes done.
    pub(super) flushes: u64,
    /// Where there is no place for a frame more: the right to leave it in its slot.
    pub(super) deferral: Option<Deferral<'a, M::Cpu>>,
    /// All pages whose slots hold a frame; empty for none.
    pub(super) deferred: VpnRange,
    /// What was added first has been flushed as a whole.
    has_ended_first_pass: bool,
    /// A part of an edit that has the right to leave frames in their slots: those that others may map too.
    is_part: bool,
}

impl<'a, 'm, M: Machine> Gather<'a, 'm, M> {
    /// Runs `edit` on the space that `pending` was raised for: translations that it removes from tables and
    /// adds to the gather are flushed, and their frames freed, when this returns. `asked` is the range of the
    /// operation. Returns the number of flushes.
    pub fn during(
        memory: &'a Memory<'m, M>,
        rcu: &'a Rcu<'a, M::Cpu>,
        shootdown: &'a Shootdown<'a, M::Cpu>,
        pending: &'a PendingFlush<'a, M::Cpu>,
        asked: VpnRange,
        edit: impl FnOnce(&mut Self),
    ) -> u64 {
        let mut gather = Self::new(memory, rcu, shootdown, pending, asked);
        edit(&mut gather);
        if !gather.has_ended_first_pass {
            gather.widen_to_overlap();
        }
        gather.flush(Locks::None);
        gather.flushes
    }

    #[inline(always)]
    fn new(
        memory: &'a Memory<'m, M>,
        rcu: &'a Rcu<'a, M::Cpu>,
        shootdown: &'a Shootdown<'a, M::Cpu>,
        pending: &'a PendingFlush<'a, M::Cpu>,
        asked: VpnRange,
    ) -> Self {
        Self {
            memory,
            rcu,
            shootdown,
            pending,
            asked,
            edited: Edited::default(),
            batch: GatherBatch::default(),
            lists: UnhookedLists::default(),
            flushes: 0,
            deferral: None,
            deferred: VpnRange::default(),
            has_ended_first_pass: false,
            is_part: false,
        }
    }

    /// A gather of a part of this one's edit: it leaves all frames in their slots that others may map too.
    pub(super) fn of_part(
        memory: &'a Memory<'m, M>,
        rcu: &'a Rcu<'a, M::Cpu>,
        shootdown: &'a Shootdown<'a, M::Cpu>,
        pending: &'a PendingFlush<'a, M::Cpu>,
    ) -> Self {
        let mut part = Self::new(memory, rcu, shootdown, pending, VpnRange::default());
        part.is_part = true;
        part
    }

    /// What becomes of the next leaf whose frame others may map too: where there is no place for it here, it
    /// stays in its slot. Then [`put_deferred`](Self::put_deferred) is called after the first pass.
    #[inline(always)]
    pub(crate) fn if_shared(&mut self) -> IfShared<'_> {
        let is_left = self.is_part || self.batch.is_full() && (self.deferral.is_some() || self.try_defer());
        if is_left { IfShared::Leave } else { IfShared::Add }
    }

    /// As [`if_shared`](Self::if_shared), of a huge leaf, which never stays in its slot: a marker does not
    /// say how large it was. Where there is no place, what was added is flushed.
    pub(crate) fn if_shared_huge(&mut self) -> IfShared<'_> {
        if self.batch.is_full() {
            self.flush_now();
        }
        IfShared::Add
    }

    #[cold]
    #[inline(never)]
    fn try_defer(&mut self) -> bool {
        let space = self.pending.space();
        if !space.is_loaded_nowhere() {
            self.deferral = space.try_defer();
        }
        self.deferral.is_some()
    }

    /// Ends the first pass of an edit, where it has left frames in slots or was done in parts: flushes all
    /// that was added, calls `put` with the pages, to clear these slots and put the frames, and frees what
    /// the parts have unhooked, with `workers`. No other edit leaves frames in slots of the space before this
    /// returns.
    #[inline(always)]
    pub(crate) fn put_deferred(
        &mut self,
        workers: Option<&WorkerPool<'_, M>>,
        put: impl FnOnce(VpnRange, &Flushed),
    ) {
        if self.deferral.is_some() {
            self.put_all_deferred(workers, put);
        }
    }

    #[cold]
    #[inline(never)]
    fn put_all_deferred(
        &mut self,
        workers: Option<&WorkerPool<'_, M>>,
        put: impl FnOnce(VpnRange, &Flushed),
    ) {
        let mut deferral = self.deferral.take();
        if mutant!("gather.deferral-given-up-early") {
            deferral = None;
        }
        let deferred = core::mem::take(&mut self.deferred);
        self.widen_to_overlap();
        self.has_ended_first_pass = true;
        if let Some(flushed) = self.flush(Locks::None) {
            if !mutant!("gather.deferred-not-put") {
                put(deferred, &flushed);
            }
            core::mem::take(&mut self.lists).free(self.memory, workers, &flushed);
        }
        drop(deferral);
    }

    /// Entries that were found absent may be cached still, where another edit has not flushed yet (P8).
    fn widen_to_overlap(&mut self) {
        if self.pending.overlaps_another() {
            self.need_flush(self.asked);
        }
    }

    /// Adds an unhooked translation. May flush with the table's lock held: a CPU that waits for that lock
    /// answers flushes.
    #[inline]
    pub fn add(&mut self, unhooked: Unhooked) {
        if self.batch.is_full() && self.deferral.is_none() {
            self.flush(Locks::Table);
        }
        if unhooked.is_pending() {
            self.deferred = span_of(self.deferred, unhooked.pages());
        }
        if !mutant!("gather.pages-not-noted") {
            self.need_flush(unhooked.pages());
        }
        self.batch.add(self.memory, unhooked);
    }

    /// As [`add`](Self::add), of leaves of `leaf_pages` pages each: CPUs are told one page of a leaf that is
    /// all of the flush. `leaf_pages` of 0 says that a TLB may hold them in parts.
    pub(crate) fn add_leaves(&mut self, unhooked: Unhooked, leaf_pages: u64) {
        let (pages, was_empty) = (unhooked.pages(), self.edited.is_empty());
        self.add(unhooked);
        if was_empty && pages.len() == leaf_pages && !self.edited.is_empty() {
            let leaf = FlushRange::of_leaf(pages);
            self.edited.narrow_to(leaf.tells_named_if(mutant!("gather.leaf-tells-one-page")));
        }
    }

    /// Adds a table that was detached.
    ///
    /// # Panics
    /// Where the table's readers are of another RCU.
    pub fn table(&mut self, table: DetachedTable<'_, M>, covered: VpnRange) {
        table.assert_of(self.rcu);
        if mutant!("gather.table-lost") {
            return self.need_flush(covered);
        }
        self.add(Unhooked::table(covered, table));
    }

    /// Flushes what was added, under the lock of the table that it was in: where something else may be put
    /// there as soon as the table is unlocked.
    pub(crate) fn flush_now(&mut self) {
        self.flush(Locks::Table);
        // Frames that wait in their slots are put after the flush that ends the first pass.
        if !mutant!("gather.deferred-forgotten") {
            self.edited = Edited::of(self.deferred);
        }
    }

    /// Notes pages whose entries allow less than before: their translations are to be flushed.
    #[inline]
    pub fn need_flush(&mut self, pages: VpnRange) {
        self.edited.add(pages);
    }

    /// As [`need_flush`](Self::need_flush), of a huge leaf: CPUs are told one page of one that is all of the
    /// flush.
    pub(crate) fn need_flush_of_leaf(&mut self, pages: VpnRange) {
        let was_empty = self.edited.is_empty();
        self.need_flush(pages);
        if was_empty {
            let leaf = FlushRange::of_leaf(pages);
            self.edited.narrow_to(leaf.tells_named_if(mutant!("fork.leaf-tells-one-page")));
        }
    }

    /// Flushes what was added, if anything was.
    #[inline(always)]
    pub(super) fn flush(&mut self, locks: Locks) -> Option<Flushed> {
        if self.edited.is_empty() {
            debug_assert!(self.batch.is_empty());
            return None;
        }
        Some(self.flush_edited(locks))
    }

    #[inline(never)]
    fn flush_edited(&mut self, locks: Locks) -> Flushed {
        self.flushes += 1;
        let told = core::mem::take(&mut self.edited).flush();
        let told = FlushRange { may_cut: locks == Locks::None, ..told };
        self.batch.free_after(self.memory, self.rcu, || {
            if !mutant!("gather.flush-skipped") {
                self.shootdown.flush(self.memory.machine(), self.pending.space(), told);
            }
        })
    }
}

/// What the caller of a flush may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locks {
    /// No lock of a table.
    None,
    /// The lock of a table that was edited.
    Table,
}

impl<M: Machine> Drop for Gather<'_, '_, M> {
    fn drop(&mut self) {
        if let Some(flushed) = self.flush(Locks::Table) {
            core::mem::take(&mut self.lists).free(self.memory, None, &flushed);
        }
    }
}

impl<M: Machine> fmt::Debug for Gather<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gather over {:?}", self.edited)
    }
}
