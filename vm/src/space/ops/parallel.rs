//! How large ranges are divided among helpers: cut where a table of leaves ends, so that no two workers edit
//! one table. A range too small for two workers, or a system without a pool, is worked on by the caller.

use crate::machine::Machine;
use crate::space::Vm;
use crate::units::{Level, Vpn, VpnRange};
use crate::work::{Chunk, WorkerPool};

/// Pages that one table of leaves covers: the minimum chunk, and the alignment of chunks.
pub(super) const TABLE_PAGES: u64 = Level::Pte.table_pages();

/// The system's worker pool, where two workers would each have at least a table's pages.
pub(super) fn workers_for<'v, M: Machine>(
    vm: &'v Vm<'v, M>,
    range: VpnRange,
) -> Option<&'v WorkerPool<'v, M>> {
    vm.workers.filter(|_| range.len() >= 2 * TABLE_PAGES)
}

/// The pages of a chunk.
pub(super) fn pages(chunk: &Chunk<'_>) -> impl Iterator<Item = Vpn> {
    chunk.range().map(Vpn)
}
