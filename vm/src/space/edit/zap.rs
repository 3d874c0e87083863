//! Editing entries: unhook, invalidate, free.
//!
//! Every edit that takes rights away from an entry goes through a gather, which flushes before it frees and
//! before the call returns; and a gather is made from a guard. The one flush outside of a gather is
//! that of a fault which replaces the zero page or a shared frame: it holds the table's lock instead
//! ([`flush_page`](AddressSpace::flush_page)).

use super::zap_leaves::Zap;
use super::{Held, PublishedGuard};
use crate::machine::Machine;
use crate::space::{AddressSpace, Counter};
use crate::table::{LockedTable, SlotRun, detach_tables, may_cover_table, sweep};
use crate::tlb::{Gather, PendingFlush};
use crate::units::{Vpn, VpnRange};
use crate::vma::VmaAttributes;

/// When the flush comes that a cleared huge leaf needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::space) enum HugeFlush {
    /// Before its table is unlocked (P9): the mapping stays, so a fault could install a smaller page there
    /// while a TLB still holds the large one.
    Now,
    /// With the edit's: no page of the range is mapped again before.
    Later,
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Gathers the translations that `edit` removes from the range. They are flushed, freed and counted when
    /// this returns.
    #[inline]
    pub(in crate::space) fn gather(
        &self,
        held: Held<'_>,
        range: VpnRange,
        edit: impl FnOnce(&mut Gather<'_, 'v, M>),
    ) {
        self.gather_pending(held, &self.entries.tlb.begin_edit(), range, edit);
    }

    /// As [`gather`](Self::gather), for an edit that counts as pending already.
    #[inline]
    pub(in crate::space) fn gather_pending(
        &self,
        held: Held<'_>,
        pending: &PendingFlush<'_, M::Cpu>,
        range: VpnRange,
        edit: impl FnOnce(&mut Gather<'_, 'v, M>),
    ) {
        held.assert_covers(self, range);
        let vm = self.vm;
        let flushes = Gather::during(&vm.memory, &vm.rcu, &vm.shootdown, pending, range, edit);
        if flushes > 0 {
            vm.count_many(Counter::TlbFlush, flushes);
        }
    }

    /// Calls `edit` with each entry of the range that is not absent, under its table's lock. The translations
    /// that it gathers are flushed and freed when this returns.
    pub(in crate::space) fn edit_entries(
        &self,
        held: Held<'_>,
        range: VpnRange,
        edit: impl FnMut(&mut LockedTable<'_, M>, usize, Vpn, &mut Gather<'_, 'v, M>),
    ) {
        self.gather(held, range, |gather| self.edit_swept(range, gather, edit));
    }

    /// As [`edit_entries`](Self::edit_entries), for a writer that has published.
    pub(in crate::space) fn edit_pending_entries(
        &self,
        guard: &PublishedGuard<'_, M>,
        range: VpnRange,
        edit: impl FnMut(&mut LockedTable<'_, M>, usize, Vpn, &mut Gather<'_, 'v, M>),
    ) {
        self.gather_pending(guard.held(), guard.pending(), range, |gather| {
            self.edit_swept(range, gather, edit);
        });
    }

    fn edit_swept(
        &self,
        range: VpnRange,
        gather: &mut Gather<'_, 'v, M>,
        mut edit: impl FnMut(&mut LockedTable<'_, M>, usize, Vpn, &mut Gather<'_, 'v, M>),
    ) {
        sweep(&self.entries.table, range, |mut run: SlotRun<'_, '_, M>| {
            run.each_used(|table, slot, page| edit(table, slot, page, gather));
        });
    }

    /// Clears leaves whose mappings are gone: no page of them is mapped again before the flush of the edit.
    #[inline(always)]
    pub(in crate::space) fn zap_later(&self) -> Zap<'_, 'v, M> {
        Zap::new(&self.entries, HugeFlush::Later)
    }

    /// Clears the leaves of the range, whose mappings stay. When it returns, no CPU uses them and their
    /// frames are freed. A huge leaf that reaches beyond the range came after the caller has split at the
    /// ends.
    pub(in crate::space) fn zap(&self, held: Held<'_>, range: VpnRange) {
        self.gather(held, range, |gather| {
            Zap::new(&self.entries, HugeFlush::Now).unhook(range, gather);
            self.zap_later().put_deferred(gather);
        });
    }

    /// As [`zap`](Self::zap), for a writer that has published.
    pub(in crate::space) fn zap_pending(&self, guard: &PublishedGuard<'_, M>, range: VpnRange) {
        self.gather_pending(guard.held(), guard.pending(), range, |gather| {
            self.zap_later().unhook(range, gather);
            self.zap_later().put_deferred(gather);
        });
    }

    /// As [`zap_pending`](Self::zap_pending), and frees the tables that cover only pages of the hole that now
    /// contains the range. `touching` are the mappings that begin or end where the range does, where that is
    /// known.
    pub(in crate::space) fn zap_and_free_tables(
        &self,
        guard: &PublishedGuard<'_, M>,
        range: VpnRange,
        touching: [Option<VmaAttributes>; 2],
    ) {
        let hole = self.hole_around(guard, range, touching);
        self.gather_pending(guard.held(), guard.pending(), range, |gather| {
            self.zap_later().unhook(range, gather);
            if let Some(hole) = hole {
                self.free_tables(range, hole, gather);
            }
            self.zap_later().put_deferred(gather);
        });
    }

    /// As [`zap_and_free_tables`](Self::zap_and_free_tables), where one mapping, busy yet, has the whole
    /// range: its first touch finds no table where it could have a huge page.
    pub(in crate::space) fn zap_replaced(
        &self,
        guard: &PublishedGuard<'_, M>,
        range: VpnRange,
        touching: [Option<VmaAttributes>; 2],
    ) {
        if mutant!("map.tables-kept") {
            return self.zap_pending(guard, range);
        }
        self.zap_and_free_tables(guard, range, touching);
    }

    #[cold]
    fn free_tables(&self, range: VpnRange, hole: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        detach_tables(&self.entries.table, range, hole, |table, covered| {
            self.vm.count(Counter::TableFree);
            gather.table(table, covered);
        });
    }

    /// The pages around a range that no mapping has, and the range, which has none that takes part in faults;
    /// `None` where they cover no table. It may reach beyond the
    /// guard's range: as far as the guard's lock keeps other writers out, which is everywhere today.
    fn hole_around(
        &self,
        guard: &PublishedGuard<'_, M>,
        range: VpnRange,
        [left, right]: [Option<VmaAttributes>; 2],
    ) -> Option<VpnRange> {
        guard.held().assert_covers(self, range);
        let mut hole = VpnRange::new(
            left.map_or(Vpn(0), |vma| vma.range.end),
            right.map_or(Vpn(1 << 52), |vma| vma.range.start),
        );
        if !may_cover_table(range, hole) {
            return None;
        }
        let reading = self.vm.rcu.read();
        if left.is_none() {
            hole.start = self.vmas.before(&reading, range.start).map_or(hole.start, |vma| vma.range().end);
        }
        if right.is_none() {
            hole.end = self.vmas.at_or_after(&reading, range.end).map_or(hole.end, |vma| vma.range().start);
        }
        may_cover_table(range, hole).then_some(hole)
    }
}
