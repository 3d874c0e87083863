//! Leaves of frames that the library does not own, over a range of pages.

use super::content::PfnLeaf;
use super::mapper::MapError;
use super::{EntryRef, LeafBits, LockedTable, PageTable, walk};
use crate::frame::TableFrame;
use crate::machine::{Cpu, Entry, Machine};
use crate::units::{Level, PageSize, Pfn, Vpn, VpnRange};

/// The size of the largest leaf that maps `pages` from their first page on, with frames from `first` on: as
/// large as the alignment of both and the length allow, and no larger than `largest`.
pub(crate) fn leaf_size_at(pages: VpnRange, first: Pfn, largest: PageSize) -> PageSize {
    let fits = |size: &PageSize| {
        let aligned = (pages.start.0 | first.0).is_multiple_of(size.pages());
        *size <= largest && aligned && pages.len() >= size.pages()
    };
    [PageSize::Giant, PageSize::Huge].into_iter().find(fits).unwrap_or(PageSize::Base)
}

/// Maps `pages` to the frames from `first` on, by leaves of at most the size `largest`. `mapped` is what was
/// mapped so far, from the first page on, and is brought up to date: after an error too. `alloc` makes empty
/// tables, and is called without a lock.
///
/// # Errors
/// [`MapError::NoMemory`], [`MapError::AlreadyMapped`].
pub(crate) fn install_pfn_leaves<'f, M: Machine + 'f>(
    tree: &PageTable<'_, M>,
    pages: VpnRange,
    first: Pfn,
    (bits, largest): (LeafBits, PageSize),
    mapped: &mut VpnRange,
    mut alloc: impl FnMut() -> Option<TableFrame<'f, M>>,
) -> Result<(), MapError> {
    let rest = |from: Vpn| VpnRange { start: from, end: pages.end };
    let frame_of = |page: Vpn| first.add(page.0 - pages.start.0);
    while mapped.end < pages.end {
        let size = leaf_size_at(rest(mapped.end), frame_of(mapped.end), largest);
        let mut table = table_at(tree, mapped.end, size.level(), &mut alloc)?;
        for slot in size.level().index(mapped.end)..Level::ENTRIES {
            let (page, frame) = (mapped.end, frame_of(mapped.end));
            if page >= pages.end || leaf_size_at(rest(page), frame, largest) != size {
                break;
            }
            if table.entry(slot) != Entry::Absent && !mutant!("mapper.mapped-over") {
                return Err(MapError::AlreadyMapped);
            }
            table.install(slot, PfnLeaf { pfn: frame, level: size.level() }, bits);
            mapped.end = page.add(size.pages());
        }
    }
    Ok(())
}

/// The table of `level` on the way to the page, locked. Tables that are missing are linked.
pub(super) fn table_at<'t, 'f, M: Machine + 'f>(
    tree: &'t PageTable<'_, M>,
    page: Vpn,
    level: Level,
    alloc: &mut impl FnMut() -> Option<TableFrame<'f, M>>,
) -> Result<LockedTable<'t, M>, MapError> {
    // Without walks no table is ever linked: such a tree is the platform's own.
    let rcu = tree.rcu.ok_or(MapError::NoMemory)?;
    let lacks_table = || {
        let reading = rcu.read();
        let found = walk(tree, page, level, &reading);
        found.table.level() != level && found.entry() == Entry::Absent
    };
    let mut fresh = None;
    loop {
        if fresh.is_none() && lacks_table() {
            fresh = Some(alloc().ok_or(MapError::NoMemory)?);
        }
        let reading = rcu.read();
        let EntryRef { table, slot, .. } = walk(tree, page, level, &reading);
        let Some(mut table) = table.lock() else {
            M::Cpu::relax();
            continue;
        };
        match table.entry(slot) {
            _ if table.level() == level => return Ok(table),
            Entry::Absent => {
                if let Some(frame) = fresh.take() {
                    fresh = table.link(slot, frame).err();
                }
            }
            // Linked since the walk.
            Entry::Table(_) => {}
            Entry::Leaf(_) | Entry::Marker(_) => return Err(MapError::AlreadyMapped),
        }
    }
}
