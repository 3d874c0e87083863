//! The end of a space: all mappings, entries and tables are removed.
//!
//! No CPU runs the space any more, those that kept its root lazily are made to leave, and all of it is
//! locked to write, so leaves may be cleared before their mappings go. Their frames are freed table by table,
//! without a flush: there is no CPU to flush. With helpers, the leaves of each large mapping are cleared by a
//! job over its pages before. The one flush is that of the tables.

use crate::frame::IfShared;
use crate::machine::Machine;
use crate::space::edit::entries::Entries;
use crate::space::edit::{Mappings, VmaEdit, Zap, part_pages};
use crate::space::{AddressSpace, RangeGuard};
use crate::table::{SlotRun, sweep};
use crate::tlb::{FullGather, FullPart};
use crate::units::{Level, Vpn, VpnRange};
use crate::work::{Chunk, Job, WorkerPool};
use core::convert::Infallible;

/// Taking a space apart.
struct Exit<'a, 'v, M: Machine> {
    mappings: &'a Mappings<'v, M>,
    entries: &'a Entries<'v, M>,
}

impl<M: Machine> Exit<'_, '_, M> {
    /// Makes CPUs that keep the space lazily leave it. Whether no CPU has it loaded then (protocol P7: the
    /// mask is empty before the first frame returns).
    fn is_left_by_all(&self) -> bool {
        let (vm, tlb) = (self.entries.vm, &self.entries.tlb);
        if !tlb.is_loaded_nowhere() && !mutant!("exit.lazy-cpus-kept") {
            vm.shootdown.evict_lazy(vm.machine, tlb, self.mappings.all_pages());
        }
        tlb.is_loaded_nowhere() || mutant!("exit.loaded-space-freed")
    }

    /// Unmaps everything.
    fn run(&self) {
        let Self { mappings, entries } = *self;
        let (vm, all) = (entries.vm, mappings.all_pages());
        let guard = mappings.write_all();
        let full = FullGather::new(&vm.memory, &vm.rcu, &entries.tlb, all);
        self.clear_in_parallel(&guard, &full, all);
        self.clear_part(&full, all);
        let emptied = VmaEdit::new(mappings, &guard).replace(all, &[], all);
        debug_assert!(emptied.is_ok(), "emptying the index takes no memory");
        // The root goes with the table.
        let guard = mappings.published(entries, guard, all);
        Zap::of_unmapped(entries).run_published(mappings, &guard, all, [None; 2]);
    }

    /// Clears the leaves of all mappings that are large enough for helpers, if there are any.
    fn clear_in_parallel(&self, guard: &RangeGuard<'_, M>, full: &FullGather<'_, '_, M>, all: VpnRange) {
        let Some(workers) = self.entries.vm.workers else { return };
        let mut rest = all;
        while let Some(vma) = self.mappings.first_in(guard.token(), rest) {
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
                    self.entries.vm.leave_entries(&mut run);
                    run.unhook_each(part, |_| IfShared::Add, FullPart::add);
                }
                part.free();
            });
        });
    }
}

impl<M: Machine> Drop for AddressSpace<'_, M> {
    /// Ends the space.
    ///
    /// # Panics
    /// Where a CPU runs it, because its [`Active`](crate::space::Active) was forgotten. Then nothing is
    /// freed.
    fn drop(&mut self) {
        let exit = Exit { mappings: &self.mappings, entries: &self.entries };
        if exit.is_left_by_all() {
            return exit.run();
        }
        // What the CPU translates through stays as it is, for good.
        self.entries.table.leak();
        self.node.leak();
        panic!("a space ends while {:?} have it loaded", self.entries.tlb.cpus_racy());
    }
}
