//! Scans of accessed bits in read sections of their own, with visitors that are called in none of them.

#![forbid(unsafe_code)]

use super::accessed::scan_some;
use super::array_vec::ArrayVec;
use super::{AccessedScan, PageTable};
use crate::machine::{Leaf, Machine};
use crate::sync::Rcu;
use crate::units::VpnRange;

/// Entries that are looked at in one read section, at most. What was found waits on the stack until the
/// section has ended.
const IN_SECTION: u64 = 64;
const MOST: usize = IN_SECTION as usize;

/// As [`scan_accessed`](super::scan_accessed), in read sections of `rcu`, the tree's, each of a few entries.
/// `visit` is called between them, with nothing held.
pub(crate) fn scan_in_parts<M: Machine>(
    tree: &PageTable<'_, M>,
    range: VpnRange,
    rcu: &Rcu<'_, M::Cpu>,
    mut visit: impl FnMut(VpnRange, Leaf),
) -> AccessedScan {
    let (mut scan, mut rest) = (AccessedScan::default(), range);
    while !rest.is_empty() {
        let mut found = ArrayVec::<(VpnRange, Leaf), MOST>::new();
        let reading = rcu.read();
        rest.start =
            scan_some(tree, rest, IN_SECTION, &mut scan, &reading, |pages, leaf| found.push((pages, leaf)));
        drop(reading);
        found.into_values().for_each(|(pages, leaf)| visit(pages, leaf));
    }
    scan
}
