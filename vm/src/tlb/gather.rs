//! Collects unhooked translations, flushes them once, and frees frames and tables after the flush.
//!
//! A gather begins before the first edit and ends after the flush; the space's count of pending flushes has
//! been raised before and is lowered afterwards (protocol P8). It knows the hull of the pages edited. When it
//! ends it flushes the hull once. If it found nothing to edit but another gather of the space is under way,
//! it flushes the whole range of the call, because an entry that it read as absent may have been cleared by
//! the other gather, whose flush has not ended: of two MADV_DONTNEED of one page, the second must not return
//! before the page has left every TLB.

use super::{PendingFlush, Shootdown};
use crate::frame::{DetachedTable, GatherBatch, Memory, Unhooked};
use crate::machine::Machine;
use crate::sync::Rcu;
use crate::units::VpnRange;
use core::fmt;

/// An edit of a space under way.
pub struct Gather<'a, 'm, M: Machine> {
    memory: &'a Memory<'m, M>,
    rcu: &'a Rcu<'a, M::Cpu>,
    shootdown: &'a Shootdown<'a, M::Cpu>,
    pending: &'a PendingFlush<'a, M::Cpu>,
    /// All pages edited since the last flush; empty for none.
    hull: VpnRange,
    batch: GatherBatch,
    /// Flushes done.
    flushes: u64,
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
        let (hull, batch) = (VpnRange::default(), GatherBatch::default());
        let mut gather = Self { memory, rcu, shootdown, pending, hull, batch, flushes: 0 };
        edit(&mut gather);
        if gather.pending.overlaps_another() {
            gather.weakened(asked);
        }
        gather.flush();
        gather.flushes
    }

    /// Adds an unhooked translation. May flush with the table's lock held: a CPU that waits for that lock
    /// answers flushes.
    #[inline]
    pub fn add(&mut self, unhooked: Unhooked) {
        if self.batch.is_full() {
            self.flush();
        }
        if !mutant!("gather.pages-not-noted") {
            self.weakened(unhooked.pages());
        }
        self.batch.add(self.memory, unhooked);
    }

    /// Adds a table that was detached.
    ///
    /// # Panics
    /// Where the table's readers are of another RCU.
    pub fn table(&mut self, table: DetachedTable<'_, M>, covered: VpnRange) {
        table.assert_of(self.rcu);
        if mutant!("gather.table-lost") {
            return self.weakened(covered);
        }
        self.add(Unhooked::table(covered, table));
    }

    /// Notes pages whose entries allow less than before.
    #[inline]
    pub fn weakened(&mut self, pages: VpnRange) {
        self.hull = if self.hull.is_empty() {
            pages
        } else {
            VpnRange::new(self.hull.start.min(pages.start), self.hull.end.max(pages.end))
        };
    }

    fn flush(&mut self) {
        if self.hull.is_empty() {
            debug_assert!(self.batch.is_empty());
            return;
        }
        self.flushes += 1;
        let hull = core::mem::take(&mut self.hull);
        self.batch.free_after(self.memory, self.rcu, || {
            if !mutant!("gather.flush-skipped") {
                self.shootdown.flush(self.memory.machine(), self.pending.space(), hull);
            }
        });
    }
}

impl<M: Machine> Drop for Gather<'_, '_, M> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl<M: Machine> fmt::Debug for Gather<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gather over {:?}", self.hull)
    }
}
