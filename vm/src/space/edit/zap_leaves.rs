//! The leaves of a range are cleared: a value, which says of what, and when huge leaves are flushed.
//!
//! The caller's guard is the right to clear them, its gather flushes and frees what was found. Several
//! helpers may share the value: each clears a part ([`parallel_zap`](super::parallel_zap)).

use super::entries::Entries;
use super::parallel_zap::{TABLES_ALONE, may_be_worth_helpers, pages_of, part_pages};
use super::{Mappings, PublishedGuard, RangeToken};
use crate::frame::Flushed;
use crate::machine::{Entry, Machine};
use crate::table::{LockedTable, SlotRun, sweep, sweep_table, sweep_tables};
use crate::tlb::Gather;
use crate::units::{Level, Vpn, VpnRange};
use crate::vma::{VmaAttributes, ZeroPagePolicy};
use crate::work::{Chunk, Job, WorkerPool};
use core::convert::Infallible;

/// When the flush comes that a cleared huge leaf needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HugeFlush {
    /// Before its table is unlocked (P9): the mapping stays, so a fault could install a smaller page there
    /// while a TLB still holds the large one.
    Now,
    /// With the edit's: no page of the range is mapped again before.
    Later,
}

/// Clearing the leaves of ranges.
pub(in crate::space) struct Zap<'a, 'v, M: Machine> {
    entries: &'a Entries<'v, M>,
    flush: HugeFlush,
}

impl<M: Machine> Clone for Zap<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Zap<'_, '_, M> {}

impl<'a, 'v, M: Machine> Zap<'a, 'v, M> {
    /// Of mappings that stay: [`run`](Self::run).
    #[inline(always)]
    pub fn of_contents(entries: &'a Entries<'v, M>) -> Self {
        Self { entries, flush: HugeFlush::Now }
    }

    /// Of mappings that are gone: no page of them is mapped again before the flush of the edit.
    #[inline(always)]
    pub fn of_unmapped(entries: &'a Entries<'v, M>) -> Self {
        Self { entries, flush: HugeFlush::Later }
    }

    /// Clears the leaves of the range. When it returns, no CPU uses them and their frames are freed. Where
    /// its mappings stay, a huge leaf that reaches beyond the range came after the caller has split at the
    /// ends.
    pub fn run(self, token: RangeToken<'_>, range: VpnRange) {
        self.entries.gather(token, range, |gather| {
            self.unhook(range, gather);
            self.put_deferred(gather);
        });
    }

    /// As [`run`](Self::run), for a writer that has published; and frees the tables that cover only pages of
    /// the hole that now contains the range. `touching` are the mappings that begin or end where the range
    /// does, where that is known.
    pub fn run_published(
        self,
        mappings: &Mappings<'v, M>,
        guard: &PublishedGuard<'_, M>,
        range: VpnRange,
        touching: [Option<VmaAttributes>; 2],
    ) {
        self.run_in_hole(guard, range, mappings.hole_around(guard.token(), range, touching));
    }

    /// As [`run_published`](Self::run_published), of a known hole.
    #[inline(always)]
    pub fn run_in_hole(self, guard: &PublishedGuard<'_, M>, range: VpnRange, hole: Option<VpnRange>) {
        self.entries.gather_pending(guard.token(), guard.pending(), range, |gather| {
            self.in_hole(range, hole, gather);
        });
    }

    /// As [`run_in_hole`](Self::run_in_hole), with the gather of the caller's edit.
    #[inline(always)]
    pub fn in_hole(self, range: VpnRange, hole: Option<VpnRange>, gather: &mut Gather<'_, 'v, M>) {
        self.unhook(range, gather);
        if let Some(hole) = hole {
            self.entries.free_tables(range, hole, gather);
        }
        self.put_deferred(gather);
    }

    /// Clears the leaves of a range, by helpers where that is worth it.
    #[inline(always)]
    fn unhook(self, range: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        // A part is flushed with the whole edit. No fault has huge leaves for the range that did not have the
        // space say so before it locked the range to write.
        let flushes_later = self.flush == HugeFlush::Later || !self.entries.may_have_huge_leaves();
        if may_be_worth_helpers(range) && self.entries.vm.workers.is_some() && flushes_later {
            self.large(range, gather);
        } else {
            self.alone(range, gather);
        }
    }

    #[inline(always)]
    pub(in crate::space) fn alone(self, range: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        self.as_long_as(range, gather, || true);
    }

    /// Clears the leaves of the range as long as `goes_on` says so, which is asked before each table. Returns
    /// the rest.
    #[inline(always)]
    pub(super) fn as_long_as(
        self,
        range: VpnRange,
        gather: &mut Gather<'_, 'v, M>,
        goes_on: impl FnMut() -> bool,
    ) -> VpnRange {
        let each = |table: &mut LockedTable<'_, M>, rest| {
            if table.level() == Level::Pte {
                sweep_table(table, rest, &mut |run: SlotRun<'_, '_, M>| {
                    run.unhook_each(gather, Gather::if_shared, Gather::add);
                })
            } else {
                self.huge(table, (rest, range), gather)
            }
        };
        sweep_tables(&self.entries.table, range, each, goes_on)
    }

    /// Clears what a table above the last level holds of the pages that are left of the range. A huge page
    /// that reaches beyond the range stays.
    #[cold]
    #[inline(never)]
    fn huge(
        self,
        table: &mut LockedTable<'_, M>,
        (rest, range): (VpnRange, VpnRange),
        gather: &mut Gather<'_, 'v, M>,
    ) -> Vpn {
        let (vm, flush) = (self.entries.vm, self.flush);
        let mut is_any_cleared = false;
        let end = sweep_table(table, rest, &mut |mut run: SlotRun<'_, '_, M>| {
            // A run of more than one slot is whole.
            let slot = run.slots.start;
            if !run.is_whole(range) && run.table.leaf(slot).is_some() {
                debug_assert!(flush == HugeFlush::Now, "a writer has split at the ends of its range");
                return;
            }
            is_any_cleared = true;
            vm.leave_entries(&mut run);
            // None where a TLB holds a translation for each page.
            let leaf_pages = if self.shows_by_table(&run) { 0 } else { run.table.level().entry_pages() };
            let add = |gather: &mut Gather<'_, 'v, M>, leaves| gather.add_leaves(leaves, leaf_pages);
            run.unhook_each(gather, Gather::if_shared_huge, add);
        });
        if flush == HugeFlush::Now && is_any_cleared && !mutant!("zap.huge-unlocked-before-flush") {
            gather.flush_now();
        }
        end
    }

    /// Whether a slot of the run shows zeros by table.
    fn shows_by_table(self, run: &SlotRun<'_, '_, M>) -> bool {
        let is_by_table = |slot| matches!(run.table.entry(slot), Entry::Leaf(leaf) if leaf.by_table());
        self.entries.vm.zero_page == ZeroPagePolicy::Virtual
            && run.slots.clone().any(is_by_table)
            && !mutant!("zero.table-unhooked-as-leaf")
    }

    /// The second pass of an edit, after its flush, where it has left frames in their slots. Tables that it
    /// has detached are not in the tree any more: the gather has put their frames.
    pub fn put_deferred(self, gather: &mut Gather<'_, 'v, M>) {
        gather.put_deferred(self.entries.vm.workers, |pages, flushed| self.put_slots(pages, flushed));
    }

    /// Clears the leaves of a range that may be worth helpers.
    #[cold]
    #[inline(never)]
    fn large(self, range: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        let mut tables = 0..TABLES_ALONE;
        let rest = self.as_long_as(range, gather, || tables.next().is_some());
        let part = part_pages(self.entries.may_have_huge_leaves());
        let is_worth = rest.len() >= (TABLES_ALONE * Level::Pte.table_pages()).max(2 * part);
        let workers = self.entries.vm.workers.filter(|_| is_worth);
        if !workers.is_some_and(|workers| self.in_parts(workers, rest, part, gather)) {
            self.alone(rest, gather);
        }
    }

    /// Clears the leaves of a range by a job. False where that did not clear all: no right to leave frames in
    /// their slots, or a helper panicked.
    fn in_parts(
        self,
        workers: &WorkerPool<'_, M>,
        range: VpnRange,
        part: u64,
        gather: &mut Gather<'_, 'v, M>,
    ) -> bool {
        let all = gather.in_parts(|parts| {
            let job = Job::new(range.start.0..range.end.0, |chunk: &Chunk<'_>| {
                parts.part(|gather| self.alone(pages_of(chunk), gather));
                Ok::<(), Infallible>(())
            });
            workers.run(&job.align(part).min_chunk(part)).is_ok()
        });
        all.unwrap_or(false)
    }

    /// Puts the frames that an edit has left in slots of `pages`, after its flush.
    fn put_slots(self, pages: VpnRange, flushed: &Flushed) {
        let put = |pages| {
            sweep(&self.entries.table, pages, |run: SlotRun<'_, '_, M>| run.put_each_pending(flushed))
        };
        let job = Job::new(pages.start.0..pages.end.0, |chunk: &Chunk<'_>| {
            put(pages_of(chunk));
            Ok::<(), Infallible>(())
        });
        let part = part_pages(self.entries.may_have_huge_leaves());
        let workers = self.entries.vm.workers.filter(|_| may_be_worth_helpers(pages));
        if workers.is_none_or(|workers| workers.run(&job.align(part).min_chunk(part)).is_err()) {
            put(pages);
        }
    }
}
