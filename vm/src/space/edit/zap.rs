//! Editing entries: unhook, invalidate, free.
//!
//! Every edit that takes rights away from an entry goes through a gather, which flushes before it frees and
//! before the call returns; and a gather is made from a guard. The one flush outside of a gather is
//! that of a fault which replaces the zero page or a shared frame: it holds the table's lock instead
//! ([`flush_page`](AddressSpace::flush_page)).

use super::{Held, PublishedGuard, parallel_zap};
use crate::machine::{Entry, Machine};
use crate::space::{AddressSpace, Counter};
use crate::table::{LockedTable, SlotRun, detach_tables, may_cover_table, sweep, sweep_table, sweep_tables};
use crate::tlb::{Gather, PendingFlush};
use crate::units::{Level, Vpn, VpnRange};
use crate::vma::{VmaAttributes, ZeroPagePolicy};

/// When the flush comes that a cleared huge leaf needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HugeFlush {
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
        self.gather_pending(held, &self.tlb.begin_edit(), range, edit);
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
        sweep(&self.table, range, |mut run: SlotRun<'_, '_, M>| {
            run.each_used(|table, slot, page| edit(table, slot, page, gather));
        });
    }

    /// Makes every CPU that runs the space forget the page, for a fault that replaces the frame of a present
    /// entry. The entry is a marker until this returns, and its table stays locked.
    pub(in crate::space) fn flush_page(&self, table: &LockedTable<'_, M>, page: Vpn) {
        self.flush_pages(table, VpnRange::new(page, page.add(1)));
    }

    /// As [`flush_page`](Self::flush_page), of the pages of one entry.
    pub(in crate::space) fn flush_pages(&self, _table: &LockedTable<'_, M>, pages: VpnRange) {
        self.vm.count(Counter::TlbFlush);
        self.vm.shootdown.flush(self.vm.machine, &self.tlb, pages);
    }

    /// Clears the leaves of the range, whose mappings stay. When it returns, no CPU uses them and their
    /// frames are freed. A huge leaf that reaches beyond the range came after the caller has split at the
    /// ends.
    pub(in crate::space) fn zap(&self, held: Held<'_>, range: VpnRange) {
        self.gather(held, range, |gather| {
            self.unhook_leaves(range, gather, HugeFlush::Now);
            self.put_deferred(gather);
        });
    }

    /// As [`zap`](Self::zap), for a writer that has published.
    pub(in crate::space) fn zap_pending(&self, guard: &PublishedGuard<'_, M>, range: VpnRange) {
        self.gather_pending(guard.held(), guard.pending(), range, |gather| {
            self.unhook_leaves(range, gather, HugeFlush::Later);
            self.put_deferred(gather);
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
            self.unhook_leaves(range, gather, HugeFlush::Later);
            if let Some(hole) = hole {
                self.free_tables(range, hole, gather);
            }
            self.put_deferred(gather);
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
        detach_tables(&self.table, range, hole, |table, covered| {
            self.vm.count(Counter::TableFree);
            gather.table(table, covered);
        });
    }

    #[inline(always)]
    fn unhook_leaves(&self, range: VpnRange, gather: &mut Gather<'_, 'v, M>, flush: HugeFlush) {
        // A part is flushed with the whole edit. No fault has huge leaves for the range that did not have the
        // space say so before it locked the range to write.
        let flushes_later = flush == HugeFlush::Later || !self.may_have_huge_leaves();
        if parallel_zap::may_be_worth_helpers(range) && self.vm.workers.is_some() && flushes_later {
            self.unhook_large(range, gather);
        } else {
            self.unhook_alone(range, gather, flush);
        }
    }

    #[inline(always)]
    pub(super) fn unhook_alone(&self, range: VpnRange, gather: &mut Gather<'_, 'v, M>, flush: HugeFlush) {
        self.unhook_while(range, gather, flush, || true);
    }

    /// Clears the leaves of the range as long as `goes_on` says so, which is asked before each table. Returns
    /// the rest.
    #[inline(always)]
    pub(super) fn unhook_while(
        &self,
        range: VpnRange,
        gather: &mut Gather<'_, 'v, M>,
        flush: HugeFlush,
        goes_on: impl FnMut() -> bool,
    ) -> VpnRange {
        let each = |table: &mut LockedTable<'_, M>, rest| {
            if table.level() == Level::Pte {
                sweep_table(table, rest, &mut |run: SlotRun<'_, '_, M>| {
                    let _nr_frames = run.unhook_each(gather, Gather::if_shared, Gather::add);
                })
            } else {
                self.unhook_huge(table, (rest, range), gather, flush)
            }
        };
        sweep_tables(&self.table, range, each, goes_on)
    }

    /// Clears what a table above the last level holds of the pages that are left of the range. A huge page
    /// that reaches beyond the range stays.
    #[cold]
    #[inline(never)]
    fn unhook_huge(
        &self,
        table: &mut LockedTable<'_, M>,
        (rest, range): (VpnRange, VpnRange),
        gather: &mut Gather<'_, 'v, M>,
        flush: HugeFlush,
    ) -> Vpn {
        let (mut is_any_cleared, mut nr_huge, mut nr_shared) = (false, 0, 0);
        let end = sweep_table(table, rest, &mut |mut run: SlotRun<'_, '_, M>| {
            // A run of more than one slot is whole.
            let slot = run.slots.start;
            let is_cut = !run.is_whole(range);
            if is_cut
                && (run.table.owned_huge_leaf(slot).is_some() || run.table.huge_zero_leaf(slot).is_some())
            {
                debug_assert!(flush == HugeFlush::Now, "a writer has split at the ends of its range");
                return;
            }
            is_any_cleared = true;
            let of_pool = self.leave_pool(&mut run);
            let of_objects = self.nr_of_objects(&mut run);
            nr_shared += of_objects;
            // None where a TLB holds a translation for each page.
            let leaf_pages = if self.shows_by_table(&run) { 0 } else { run.table.level().entry_pages() };
            let add = |gather: &mut Gather<'_, 'v, M>, leaves| gather.add_leaves(leaves, leaf_pages);
            nr_huge +=
                run.unhook_each(gather, Gather::if_shared_huge, add).saturating_sub(of_pool + of_objects);
        });
        self.count_huge_gone(nr_huge);
        self.count_shared_huge_gone(nr_shared);
        if flush == HugeFlush::Now && is_any_cleared && !mutant!("zap.huge-unlocked-before-flush") {
            gather.flush_now();
        }
        end
    }

    /// Whether a slot of the run shows zeros by table.
    fn shows_by_table(&self, run: &SlotRun<'_, '_, M>) -> bool {
        let is_by_table = |slot| matches!(run.table.entry(slot), Entry::Leaf(leaf) if leaf.by_table());
        self.vm.zero_page == ZeroPagePolicy::Virtual
            && run.slots.clone().any(is_by_table)
            && !mutant!("zero.table-unhooked-as-leaf")
    }

    /// Leaves of objects' folios in a run above the last level.
    pub(in crate::space) fn nr_of_objects(&self, run: &mut SlotRun<'_, '_, M>) -> u64 {
        let mut nr = 0;
        if self.vm.shared_huge.is_ever() {
            run.each_used(|table, slot, _| nr += u64::from(table.is_of_object(slot)));
        }
        nr
    }

    /// The second pass of an edit, after its flush, where it has left frames in their slots. Tables that it
    /// has detached are not in the tree any more: the gather has put their frames.
    pub(in crate::space) fn put_deferred(&self, gather: &mut Gather<'_, 'v, M>) {
        gather.put_deferred(self.vm.workers, |pages, flushed| self.put_slots(pages, flushed));
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
