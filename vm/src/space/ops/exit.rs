//! The end of a space: all mappings, entries and tables are removed.
//!
//! No CPU runs the space any more, those that kept its root lazily are made to leave, and all of it is
//! locked to write, so leaves may be cleared before their mappings go. Their frames are freed table by table,
//! without a flush: there is nobody to flush. With helpers, the leaves of each large mapping are cleared by a
//! job over its pages before. The one flush is that of the tables.

use crate::frame::IfShared;
use crate::machine::Machine;
use crate::space::edit::{VmaEdit, part_pages};
use crate::space::{AddressSpace, RangeGuard};
use crate::table::{SlotRun, sweep};
use crate::tlb::{FullGather, FullPart};
use crate::units::{Level, Vpn, VpnRange};
use crate::work::{Chunk, Job, WorkerPool};
use core::convert::Infallible;

impl<M: Machine> AddressSpace<'_, M> {
    /// Unmaps everything, after the CPUs that keep the space lazily have left it (protocol P7: the mask is
    /// empty before the first frame returns).
    ///
    /// # Panics
    /// Where a CPU runs it, because its [`Active`](crate::space::Active) was forgotten. Then nothing is
    /// freed.
    fn tear_down(&mut self) {
        if !self.runs_nowhere() && !mutant!("exit.lazy-cpus-kept") {
            self.vm.shootdown.evict_lazy(self.vm.machine, &self.entries.tlb, self.all_pages());
        }
        if !self.runs_nowhere() && !mutant!("exit.loaded-space-freed") {
            // What the CPU translates through stays as it is, for good.
            self.entries.table.leak();
            self.node.leak();
            panic!("a space ends while {:?} have it loaded", self.entries.tlb.cpus_racy());
        }
        let all = self.all_pages();
        let guard = self.write_all();
        let full = FullGather::new(&self.vm.memory, &self.vm.rcu, &self.entries.tlb);
        self.clear_in_parallel(&guard, &full, all);
        self.clear_part(&full, all);
        let emptied = VmaEdit::new(self, &guard).replace(all, &[], all);
        debug_assert!(emptied.is_ok(), "emptying the index takes no memory");
        // The root goes with the table.
        let guard = self.published(guard, all);
        self.zap_and_free_tables(&guard, all, [None; 2]);
    }

    /// Clears the leaves of all mappings that are large enough for helpers, if there are any.
    fn clear_in_parallel(&self, guard: &RangeGuard<'_, M>, full: &FullGather<'_, '_, M>, all: VpnRange) {
        let Some(workers) = self.vm.workers else { return };
        let mut rest = all;
        while let Some(vma) = self.first_in(guard.held(), rest) {
            rest = VpnRange::new(vma.range.end, all.end);
            let part = part_pages(self.entries.may_have_huge_leaves());
            if vma.range.len() >= 2 * part {
                self.clear_one(workers, full, vma.range, part);
            }
        }
    }

    fn clear_one(
        &self,
        workers: &WorkerPool<'_, M>,
        full: &FullGather<'_, '_, M>,
        range: VpnRange,
        part: u64,
    ) {
        let job = Job::new(range.start.0..range.end.0, |chunk: &Chunk<'_>| {
            let pages = VpnRange::new(Vpn(chunk.start), Vpn(chunk.end));
            self.clear_part(full, pages);
            Ok::<(), Infallible>(())
        });
        // Leaves that a panicking helper left are cleared afterwards by the caller, which sweeps all pages in
        // any case.
        let _done = workers.run(&job.align(part).min_chunk(part));
    }

    /// Clears the leaves of the pages and frees what they map, a table at a time: records are in the caches
    /// still.
    fn clear_part(&self, full: &FullGather<'_, '_, M>, pages: VpnRange) {
        full.part(|part| {
            sweep(&self.entries.table, pages, |mut run: SlotRun<'_, '_, M>| {
                if run.table.level() == Level::Pte {
                    run.unhook_each(part, FullPart::if_shared, FullPart::add);
                } else {
                    self.vm.leave_entries(&mut run);
                    run.unhook_each(part, |_| IfShared::Add, FullPart::add);
                }
                part.free();
            });
        });
    }
}

impl<M: Machine> Drop for AddressSpace<'_, M> {
    fn drop(&mut self) {
        self.tear_down();
    }
}
