//! The end of a space: all mappings, entries and tables are removed.
//!
//! No CPU runs the space any more, those that kept its root lazily are made to leave, and all of it is
//! locked to write, so leaves may be cleared before their mappings go. With helpers, the leaves of each large
//! mapping are cleared by a job over its pages; each chunk frees by itself, without a flush: there is nobody
//! to flush. The one flush is that of the tables.

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
            self.vm.shootdown.evict_lazy(self.vm.machine, &self.tlb, self.all_pages());
        }
        if !self.runs_nowhere() && !mutant!("exit.loaded-space-freed") {
            // What the CPU translates through stays as it is, for good.
            self.table.leak();
            self.node.leak();
            panic!("a space ends while {:?} have it loaded", self.cpus_racy());
        }
        let all = self.all_pages();
        let guard = self.write_all();
        self.clear_in_parallel(&guard, all);
        let emptied = VmaEdit::new(self, &guard).replace(all, &[], all);
        debug_assert!(emptied.is_ok(), "emptying the index takes no memory");
        // The root goes with the table.
        let guard = self.published(guard, all);
        self.zap_and_free_tables(&guard, all, [None; 2]);
    }

    /// Clears the leaves of all mappings that are large enough for helpers, if there are any.
    fn clear_in_parallel(&self, guard: &RangeGuard<'_, M>, all: VpnRange) {
        let Some(workers) = self.vm.workers else { return };
        let full = FullGather::new(&self.vm.memory, &self.vm.rcu, &self.tlb);
        let mut rest = all;
        while let Some(vma) = self.first_in(guard.held(), rest) {
            rest = VpnRange::new(vma.range.end, all.end);
            let part = part_pages(self.may_have_huge_leaves());
            if vma.range.len() >= 2 * part {
                self.clear_one(workers, &full, vma.range, part);
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
            full.part(|part| {
                sweep(&self.table, pages, |mut run: SlotRun<'_, '_, M>| {
                    let is_huge = run.table.level() != Level::Pte;
                    let of_pool = if is_huge { self.leave_pool(&mut run) } else { 0 };
                    let nr_frames = run.unhook_each(part, |_| false, FullPart::add);
                    if is_huge && !mutant!("exit.huge-uncounted") {
                        self.count_huge_gone(nr_frames.saturating_sub(of_pool));
                    }
                });
            });
            Ok::<(), Infallible>(())
        });
        // Leaves that a panicking helper left are cleared afterwards by the caller, which sweeps all pages in
        // any case.
        let _done = workers.run(&job.align(part).min_chunk(part));
    }
}

impl<M: Machine> Drop for AddressSpace<'_, M> {
    fn drop(&mut self) {
        self.tear_down();
    }
}
