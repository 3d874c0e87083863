//! Rules of Linux that the oracle's model and the judge of replays share.

#![forbid(unsafe_code)]

use interleaf::units::PageSize;
use std::ops::Range;

/// Whether MADV_DONTNEED of `part`, which lies in one mapping, frees the table of the region of 2 MiB that
/// begins at `region`: it has emptied all of it (`CONFIG_PT_RECLAIM`, Linux 6.14). The library keeps tables.
pub fn discard_frees_table(part: &Range<u64>, region: u64) -> bool {
    part.start <= region && region.saturating_add(PageSize::Huge.bytes()) <= part.end
}
