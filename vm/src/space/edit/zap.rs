//! Clearing entries: unhook, invalidate, free.

use crate::machine::Machine;
use crate::space::Counter;
use crate::space::{AddressSpace, WriteGuard};
use crate::table::{SlotRun, detach_tables, may_cover_table, sweep};
use crate::tlb::Gather;
use crate::units::{Vpn, VpnRange};
use crate::vma::VmaAttributes;

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Edits entries of the range: what `edit` gathers is flushed, freed and counted when this returns.
    pub(in crate::space) fn edit_entries(&self, range: VpnRange, edit: impl FnOnce(&mut Gather<'_, 'v, M>)) {
        let vm = self.vm;
        let flushes = Gather::during(&vm.memory, &vm.rcu, &vm.shootdown, &self.tlb, range, edit);
        if flushes > 0 {
            vm.count_many(Counter::TlbFlush, flushes);
        }
    }

    /// Makes every CPU that runs the space forget the range.
    pub(in crate::space) fn flush(&self, range: VpnRange) {
        self.vm.count(Counter::TlbFlush);
        self.vm.shootdown.flush(self.vm.machine, &self.tlb, range);
    }

    /// Clears the leaves of the range. When it returns, no CPU uses them and their frames are freed. The
    /// space's lock is held, shared or alone.
    pub(in crate::space) fn zap(&self, range: VpnRange) {
        self.edit_entries(range, |gather| self.unhook_leaves(range, gather));
    }

    /// As [`zap`](Self::zap), and takes out the tables that cover nothing but the gap that the range is part
    /// of now. `touching` are the mappings that begin or end where the range does, where that is known.
    pub(in crate::space) fn zap_and_free_tables(
        &self,
        guard: &WriteGuard<'_, M>,
        range: VpnRange,
        touching: [Option<VmaAttributes>; 2],
    ) {
        let gap = self.gap_around(guard, range, touching);
        self.edit_entries(range, |gather| {
            self.unhook_leaves(range, gather);
            if let Some(gap) = gap {
                self.detach_tables(range, gap, gather);
            }
        });
    }

    #[cold]
    fn detach_tables(&self, range: VpnRange, gap: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        detach_tables(&self.table, range, gap, |pfn, covered| {
            self.vm.count(Counter::TableFree);
            if !mutant!("zap.cut-not-noted") {
                self.table.note_detached();
            }
            gather.table(pfn, covered);
        });
    }

    fn unhook_leaves(&self, range: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        sweep(&self.table, range, |mut run: SlotRun<'_, '_, M>| {
            run.each_used(|table, slot, page| {
                if let Some(unhooked) = table.unhook(slot, page) {
                    gather.add(unhooked);
                }
            });
            run.table.note_absent(run.slots);
        });
    }

    /// The hole around a range without mappings; `None` where it covers no table.
    fn gap_around(
        &self,
        _guard: &WriteGuard<'_, M>,
        range: VpnRange,
        [left, right]: [Option<VmaAttributes>; 2],
    ) -> Option<VpnRange> {
        let mut gap = VpnRange::new(
            left.map_or(Vpn(0), |vma| vma.range.end),
            right.map_or(Vpn(1 << 52), |vma| vma.range.start),
        );
        if !may_cover_table(range, gap) {
            return None;
        }
        let reading = self.vm.rcu.read();
        if left.is_none() {
            gap.start = self.vmas.before(&reading, range.start).map_or(gap.start, |vma| vma.range().end);
        }
        if right.is_none() {
            gap.end = self.vmas.at_or_after(&reading, range.end).map_or(gap.end, |vma| vma.range().start);
        }
        may_cover_table(range, gap).then_some(gap)
    }
}
