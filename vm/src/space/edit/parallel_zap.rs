//! Clearing the leaves of a large range by several CPUs, with one flush.
//!
//! ```text
//!   caller    sweeps the first tables alone ─┬─ sweeps parts ─┬─ detaches tables, flushes ─┬─ frees ─►
//!   helpers                                  └─ sweep parts ──┘                            └─ free ──┘
//! ```
//!
//! A range says little about the work: a terabyte that was reserved and never touched is skipped at the upper
//! levels. So the caller begins alone, and calls helpers when it has met some tables of leaves and as many
//! may follow. What is too small for helpers, or a system without them, costs one comparison.
//!
//! Parts are cut where a table of leaves ends, so no two workers clear entries of one table; in a space with
//! huge leaves where a table of those ends, so no part cuts a leaf of 2 MiB or 1 GiB. Everyone else meets
//! what they meet beside one sweep: a table's lock that is held for that table, a mapping that is gone. The
//! right by which entries are cleared is the caller's guard, which stays until the parts have ended; the
//! flush is the caller's too ([`GatherParts`](crate::tlb::GatherParts)).

use super::zap::HugeFlush;
use crate::frame::Flushed;
use crate::machine::Machine;
use crate::space::AddressSpace;
use crate::table::{SlotRun, sweep};
use crate::tlb::Gather;
use crate::units::{Level, Vpn, VpnRange};
use crate::work::{Chunk, Job, WorkerPool};
use core::convert::Infallible;

/// Tables of leaves that the caller sweeps before it calls helpers, and that must be able to follow: some
/// 100 microseconds of work, where a helper is there in ten. Few where tests are to see both ways.
const TABLES_ALONE: u64 = if cfg!(any(loom, debug_assertions)) { 1 } else { 16 };

/// Whether a range could hold enough leaves for helpers. Pure policy.
#[inline(always)]
pub(super) const fn may_be_worth_helpers(range: VpnRange) -> bool {
    range.end.0 - range.start.0 >= 2 * TABLES_ALONE * Level::Pte.table_pages()
}

/// Pages of the smallest part, at multiples of which parts begin: those of a table of leaves, of base pages
/// or of huge ones.
pub(in crate::space) fn part_pages(has_huge_leaves: bool) -> u64 {
    if has_huge_leaves && !mutant!("parts.huge-leaf-cut") {
        Level::Pmd.table_pages()
    } else {
        Level::Pte.table_pages()
    }
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Clears the leaves of a range that may be worth helpers.
    #[cold]
    #[inline(never)]
    pub(super) fn unhook_large(&self, range: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        let mut tables = 0..TABLES_ALONE;
        let rest = self.unhook_while(range, gather, HugeFlush::Later, || tables.next().is_some());
        let part = part_pages(self.may_have_huge_leaves());
        let is_worth = rest.len() >= (TABLES_ALONE * Level::Pte.table_pages()).max(2 * part);
        let workers = self.vm.workers.filter(|_| is_worth);
        if !workers.is_some_and(|workers| self.unhook_in_parts(workers, rest, part, gather)) {
            self.unhook_alone(rest, gather, HugeFlush::Later);
        }
    }

    /// Clears the leaves of a range by a job. False where that did not clear all: no right to leave frames in
    /// their slots, or a helper panicked.
    fn unhook_in_parts(
        &self,
        workers: &WorkerPool<'_, M>,
        range: VpnRange,
        part: u64,
        gather: &mut Gather<'_, 'v, M>,
    ) -> bool {
        let all = gather.in_parts(|parts| {
            let job = Job::new(range.start.0..range.end.0, |chunk: &Chunk<'_>| {
                parts.part(|gather| self.unhook_part(pages_of(chunk), gather));
                Ok::<(), Infallible>(())
            });
            workers.run(&job.align(part).min_chunk(part)).is_ok()
        });
        all.unwrap_or(false)
    }

    /// Clears the leaves of a part.
    pub(in crate::space) fn unhook_part(&self, pages: VpnRange, gather: &mut Gather<'_, 'v, M>) {
        self.unhook_alone(pages, gather, HugeFlush::Later);
    }

    /// Puts the frames that an edit has left in slots of `pages`, after its flush.
    pub(super) fn put_slots(&self, pages: VpnRange, flushed: &Flushed) {
        let put = |pages| sweep(&self.table, pages, |run: SlotRun<'_, '_, M>| run.put_each_pending(flushed));
        let job = Job::new(pages.start.0..pages.end.0, |chunk: &Chunk<'_>| {
            put(pages_of(chunk));
            Ok::<(), Infallible>(())
        });
        let part = part_pages(self.may_have_huge_leaves());
        let workers = self.vm.workers.filter(|_| may_be_worth_helpers(pages));
        if workers.is_none_or(|workers| workers.run(&job.align(part).min_chunk(part)).is_err()) {
            put(pages);
        }
    }
}

fn pages_of(chunk: &Chunk<'_>) -> VpnRange {
    VpnRange::new(Vpn(chunk.start), Vpn(chunk.end))
}
