//! Runs: blocks of more than a region, taken region by region.

use super::Zone;
use super::buddy::are_free;
use super::region::Lists;
use crate::frame::{FrameTable, Init, Priority};
use crate::machine::Cpu;
use crate::units::{Order, Pfn, PfnRange};

impl<C: Cpu> Zone<'_, C> {
    /// Allocates the block of `order`, more than [`Order::MAX`], that starts at `pfn`, if it is free, its
    /// records are written and the watermark allows it. Its regions give their parts one after the other;
    /// a search for the last frames waits for that.
    pub(in crate::frame) fn alloc_run(
        &self,
        table: &FrameTable<'_, C>,
        pfn: Pfn,
        order: Order,
    ) -> Option<Init> {
        let run = PfnRange::new(pfn, pfn.add(order.frames()));
        // A look without locks spares those that are not free.
        are_free(table, self.index, run).then(|| self.take_run(table, run)).flatten()
    }

    /// Takes the blocks of a run, all or none.
    pub(super) fn take_run(&self, table: &FrameTable<'_, C>, run: PfnRange) -> Option<Init> {
        let _runs = self.runs.lock();
        self.settle(table);
        if self.budget.take(run.len(), run.len(), Priority::Normal) == 0 {
            return None;
        }
        let mut whole = None;
        for (at, part) in self.regions.parts(run) {
            let Some(init) = self.edit(table, at, |lists| self.take_part(table, lists, part)) else {
                self.undo_run(table, PfnRange::new(run.start, part.start), run.len(), whole);
                return None;
            };
            let joined = whole.is_none_or(|before| before == init);
            whole = Some(if joined { init } else { Init::Dirty });
        }
        whole
    }

    /// Takes the part of a run that lies in a region. The run is paid for; credit that the region has for
    /// these frames goes back.
    fn take_part(&self, table: &FrameTable<'_, C>, lists: &mut Lists<C>, part: PfnRange) -> Option<Init> {
        let init = lists.buddy.alloc_run(table, part)?;
        let (credit, free) = (lists.credit.get(), lists.buddy.free_frames());
        if credit > free {
            lists.credit.set(free);
            self.budget.add_back(credit - free);
        }
        Some(init)
    }

    /// Frees the part of a run that was taken, and gives back what all of it would have cost.
    fn undo_run(&self, table: &FrameTable<'_, C>, taken: PfnRange, frames: u64, init: Option<Init>) {
        for (at, part) in self.regions.parts(taken) {
            let init = init.unwrap_or(Init::Dirty);
            self.edit(table, at, |lists| lists.buddy.free_range(table, part.start, part.end, init));
        }
        if !mutant!("zone.run-not-paid-back") {
            self.budget.add(frames);
        }
    }
}
