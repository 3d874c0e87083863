//! Editing entries: unhook, invalidate, free.
//!
//! Every edit that takes rights away from an entry goes through a gather, which flushes before it frees and
//! before the call returns; and a gather is made from a guard. The one flush outside of a gather is
//! that of a fault which replaces the zero page or a shared frame: it holds the table's lock instead
//! ([`flush_entry`](Entries::flush_entry)).

use super::entries::Entries;
use super::{PublishedGuard, RangeToken};
use crate::machine::Machine;
use crate::space::Counter;
use crate::table::{LockedTable, SlotRun, detach_tables, sweep};
use crate::tlb::{Gather, PendingFlush};
use crate::units::{Vpn, VpnRange};

impl<'v, M: Machine> Entries<'v, M> {
    /// Gathers the translations that `edit` removes from the range. They are flushed, freed and counted when
    /// this returns.
    #[inline]
    pub fn gather(&self, token: RangeToken<'_>, range: VpnRange, edit: impl FnOnce(&mut Gather<'_, 'v, M>)) {
        self.gather_pending(token, &self.tlb.begin_edit(), range, edit);
    }

    /// As [`gather`](Self::gather), for an edit that counts as pending already.
    #[inline]
    pub fn gather_pending(
        &self,
        token: RangeToken<'_>,
        pending: &PendingFlush<'_, M::Cpu>,
        range: VpnRange,
        edit: impl FnOnce(&mut Gather<'_, 'v, M>),
    ) {
        token.assert_covers(self.id(), range);
        let vm = self.vm;
        let flushes = Gather::during(&vm.memory, &vm.rcu, &vm.shootdown, pending, range, edit);
        if flushes > 0 {
            vm.count_many(Counter::TlbFlush, flushes);
        }
    }

    /// Calls `edit` with each entry of the range that is not absent, under its table's lock. The translations
    /// that it gathers are flushed and freed when this returns.
    pub fn edit(
        &self,
        token: RangeToken<'_>,
        range: VpnRange,
        edit: impl FnMut(&mut LockedTable<'_, M>, usize, Vpn, &mut Gather<'_, 'v, M>),
    ) {
        self.gather(token, range, |gather| self.edit_swept(range, gather, edit));
    }

    /// As [`edit`](Self::edit), for a writer that has published.
    pub fn edit_pending(
        &self,
        guard: &PublishedGuard<'_, M>,
        range: VpnRange,
        edit: impl FnMut(&mut LockedTable<'_, M>, usize, Vpn, &mut Gather<'_, 'v, M>),
    ) {
        self.gather_pending(guard.token(), guard.pending(), range, |gather| {
            self.edit_swept(range, gather, edit);
        });
    }

    fn edit_swept(
        &self,
        range: VpnRange,
        gather: &mut Gather<'_, 'v, M>,
        mut edit: impl FnMut(&mut LockedTable<'_, M>, usize, Vpn, &mut Gather<'_, 'v, M>),
    ) {
        sweep(&self.table, range, |mut run: SlotRun<'_, '_, M>| {
            run.each_used(|table, slot, page| edit(table, slot, page, gather));
        });
    }

    /// Frees the tables that cover only pages of `hole`, of which `range` has lost its leaves.
    #[cold]
    pub fn free_tables(&self, range: VpnRange, hole: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        detach_tables(&self.table, range, hole, |table, covered| {
            self.vm.count(Counter::TableFree);
            gather.table(table, covered);
        });
    }
}
