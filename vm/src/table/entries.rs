//! Lockless movement over a range: each entry that points to no table, once.

use super::sweep::part_of_entry;
use super::{EntryRef, PageTable, is_canonical, walk};
use crate::machine::{Entry, Format, Machine};
use crate::sync::ReadGuard;
use crate::units::{Level, PAGE_SHIFT, Vpn, VpnRange};
use core::ops::ControlFlow;

/// Visits the entries of `range` in order, of whatever level: leaves, markers and absent ones, each read
/// once, with the first page of the range that it covers. Stops where `visit` breaks. Returns the first page
/// that was not visited. Pages that the format does not translate are passed over.
///
/// Takes no lock. Each entry is as it was when it was read; a table that is linked, or detached, meanwhile
/// may or may not be seen. A word that leads to a table says only where to go on: it is read anew there.
#[inline(always)]
pub(super) fn visit_entries<'r, 't, M: Machine>(
    tree: &'t PageTable<'t, M>,
    range: VpnRange,
    reading: &'r ReadGuard<'_, M::Cpu>,
    mut visit: impl FnMut(&EntryRef<'r, 't, M>, Vpn) -> ControlFlow<()>,
) -> Vpn {
    let mut at = range.start;
    while at < range.end {
        if !is_canonical::<M::Format>(at) {
            let beyond = upper_half::<M::Format>().filter(|&first| at < first && first < range.end);
            let Some(first) = beyond else { return range.end };
            at = first;
        }
        let mut found = walk(tree, at, Level::Pte, reading);
        let level = found.table.level();
        loop {
            let next = part_of_entry(level, at, range.end).end;
            if visit(&found, at).is_break() {
                return next;
            }
            at = next;
            found.slot += 1;
            if at >= range.end || found.slot == Level::ENTRIES {
                break;
            }
            if level == M::Format::ROOT && !is_covered(&found, at) && !mutant!("scan.platforms-slots-read") {
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

/// Whether the root says something of the page: not in the platform's slots, nor beyond what the format
/// translates.
#[cold]
fn is_covered<M: Machine>(found: &EntryRef<'_, '_, M>, page: Vpn) -> bool {
    !found.table.is_platforms(found.slot) && is_canonical::<M::Format>(page)
}

/// The first page of the upper half of virtual addresses, where the format has one.
fn upper_half<F: Format>() -> Option<Vpn> {
    let half = 1u64 << (F::ADDRESS_BITS - 1 - PAGE_SHIFT);
    F::SIGN_EXTENDED.then_some(Vpn((1 << (u64::BITS - PAGE_SHIFT)) - half))
}
