//! Unfolding groups of contiguous leaves before an edit, where the format has such.

use crate::machine::{Format, Machine};
use crate::space::AddressSpace;
use crate::table::{LockedTable, SlotRun};
use crate::units::{Level, Vpn, VpnRange};
use core::ops::Range;

impl<M: Machine> AddressSpace<'_, M> {
    /// Makes leaves of their own of all [contiguous](Format::CONTIGUOUS) ones in the run, and of those of
    /// their groups beyond its ends. At most one flush, with the table locked.
    #[inline(always)]
    pub(in crate::space) fn unfold_run(&self, run: &mut SlotRun<'_, '_, M>) {
        self.unfold(run.table, run.slots.clone(), run.first);
    }

    /// As [`unfold_run`](Self::unfold_run), of slots of a locked table, the first of which maps `page`.
    #[inline(always)]
    pub(in crate::space) fn unfold(&self, table: &mut LockedTable<'_, M>, slots: Range<usize>, page: Vpn) {
        if M::Format::CONTIGUOUS != 0 && table.level() == Level::Pte && !mutant!("contiguous.not-unfolded") {
            let start = Vpn(page.0 & !(Level::Pte.table_pages() - 1));
            table.unfold(slots, |table, broken| {
                let page = |slot: usize| start.add(slot as u64);
                self.flush_pages(table, VpnRange::new(page(broken.start), page(broken.end)));
            });
        }
    }
}
