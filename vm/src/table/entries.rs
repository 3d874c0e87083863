//! Lockless movement over a range: each entry that points to no table, once.

use super::sweep::part_of_entry;
use super::{EntryRef, PageTable, walk};
use crate::machine::{Entry, Machine};
use crate::sync::ReadGuard;
use crate::units::{Level, Vpn, VpnRange};
use core::ops::ControlFlow;

/// Visits the entries of `range` in order, of whatever level: leaves, markers and absent ones, each read
/// once, with the first page of the range that it covers. Stops where `visit` breaks. Returns the first page
/// that was not visited.
///
/// Takes no lock. Each entry is as it was when it was read; a table that is linked, or detached, meanwhile may
/// or may not be seen. A word that leads to a table says only where to go on: it is read anew there.
#[inline(always)]
pub(super) fn visit_entries<'r, 't, M: Machine>(
    tree: &'t PageTable<'t, M>,
    range: VpnRange,
    reading: &'r ReadGuard<'_, M::Cpu>,
    mut visit: impl FnMut(&EntryRef<'r, 't, M>, Vpn) -> ControlFlow<()>,
) -> Vpn {
    let mut at = range.start;
    while at < range.end {
        let mut found = walk(tree, at, Level::Pte, reading);
        let level = found.table.level();
        loop {
            let next = part_of_entry(level, at, range.end).end;
            if visit(&found, at).is_break() {
                return next;
            }
            at = next;
            found.slot += 1;
            if at >= range.end || found.slot == Level::ENTRIES || found.table.is_platforms(found.slot) {
                break;
            }
            found.word = found.table.read(found.slot);
            if level != Level::Pte && matches!(found.entry(), Entry::Table(_)) {
                break;
            }
        }
    }
    at
}
