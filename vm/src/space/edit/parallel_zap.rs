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

use crate::units::{Level, Vpn, VpnRange};
use crate::work::Chunk;

/// Tables of leaves that the caller sweeps before it calls helpers, and that must be able to follow: some
/// 100 microseconds of work, where a helper is there in ten. Few where tests are to see both ways.
pub(super) const TABLES_ALONE: u64 = if cfg!(any(loom, debug_assertions)) { 1 } else { 16 };

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

pub(super) fn pages_of(chunk: &Chunk<'_>) -> VpnRange {
    VpnRange::new(Vpn(chunk.start), Vpn(chunk.end))
}
