//! Accessed bits, counted and cleared without the lock of a table.
//!
//! A caller that looks for pages that are not used clears the accessed bit of each, and comes back later.
//! That is no edit of the tree: rights, frame and size stay. So it needs no lock, but every editor has to
//! live with a bit that goes away under its lock:
//!
//! ```text
//!   scan       reads the entry ─► a present leaf, accessed? ─► exchanges the same word for one without
//!   hardware                                                   sets the bit, or dirty: the exchange fails
//!   a writer   loads the word ─► all bits set: a plain store    else an exchange
//! ```
//!
//! *The compare-exchange* writes nothing but the bit: dirty bits, rights and frame of the new word are those
//! of the word that it replaces, which is still there. It does not touch a word that is absent, a marker, or
//! a leaf without rights: those, writers fill by plain stores.
//!
//! *The plain store* of a writer ([`LockedTable::replace`](super::LockedTable), `clear_leaf`,
//! `write_protect`) stands on this: the hardware writes an entry only to set a bit that is clear, and of the
//! word that the writer has loaded none is. A scan may clear the accessed bit between that load and the
//! store, and the hardware may set it again. What the store overwrites is therefore the loaded word, or the
//! same word without its accessed bit. *Dirty*, rights and frame cannot differ: only a holder of the lock
//! clears the first, and nothing changes the others. So what is lost is that the bit was cleared. The leaf
//! that is handed on, or the one that the writer stores, says *accessed*, as it said when the writer loaded
//! it; the scan has counted the page too. A page counts as used once more than it was, and never once less.
//! No writer pays for that: the store stays a store.
//!
//! *A word that comes back.* The page may be unmapped after the scan has read its entry, and mapped again to
//! the same frame with the same bits. The exchange then clears the bit of the new mapping. Again the page is
//! counted, once for both.
//!
//! # What stays stale
//!
//! A CPU that has the translation cached does not set the bit again until it walks anew: the page looks idle
//! though it is used. Linux leaves that so on x86-64, since TLBs are small. A caller that wants the next scan
//! to be exact flushes the pages afterwards; `space::Walker::scan_accessed_and_flush` does.
//!
//! So an entry that is not accessed may be cached. No flush is ever left out because a bit is clear.

use super::entries::visit_entries;
use super::{EntryRef, PageTable};
use crate::machine::{Entry, Format, Leaf, Machine};
use crate::sync::ReadGuard;
use crate::sync::atomic::Ordering::*;
use crate::units::{Level, Vpn, VpnRange};
use core::ops::ControlFlow;

/// What a scan has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessedScan {
    /// Leaves of any size that allow something.
    pub leaves: u64,
    /// Those of them that were marked accessed, and are not any more.
    pub accessed: u64,
}

/// Clears the accessed bit of each leaf of `range` that has it set, and calls `visit` with the pages of such
/// a leaf, and the leaf as it was. A larger leaf that the range cuts is taken whole.
///
/// Takes no lock, and blocks no CPU; the read section may be one in which other things are read. Of what CPUs
/// share it writes the entries whose bit was set, and nothing else. No flush: see the module of the
/// `accessed` bits in docs/design/walkers.md for what that leaves stale.
///
/// # Panics
/// As [`walk`](super::walk).
#[inline]
pub fn scan_accessed<M: Machine>(
    tree: &PageTable<'_, M>,
    range: VpnRange,
    reading: &ReadGuard<'_, M::Cpu>,
    visit: impl FnMut(VpnRange, Leaf),
) -> AccessedScan {
    let mut scan = AccessedScan::default();
    scan_some(tree, range, u64::MAX, &mut scan, reading, visit);
    scan
}

/// As [`scan_accessed`], of at most `most` entries. Returns the first page that was not looked at.
#[inline(always)]
pub(crate) fn scan_some<M: Machine>(
    tree: &PageTable<'_, M>,
    range: VpnRange,
    most: u64,
    scan: &mut AccessedScan,
    reading: &ReadGuard<'_, M::Cpu>,
    mut visit: impl FnMut(VpnRange, Leaf),
) -> Vpn {
    let mut left = most;
    visit_entries(tree, range, reading, |found, at| {
        left -= 1;
        if let Entry::Leaf(leaf) = found.entry()
            && !leaf.rights.is_empty()
        {
            scan.leaves += 1;
            if leaf.accessed
                && let Some(leaf) = found.clear_accessed()
            {
                scan.accessed += 1;
                visit(pages_of(found.table.level(), at), leaf);
            }
        }
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

/// The pages of the entry of `level` that covers `page`.
fn pages_of(level: Level, page: Vpn) -> VpnRange {
    let start = Vpn(page.0 & !(level.entry_pages() - 1));
    VpnRange { start, end: start.add(level.entry_pages()) }
}

impl<M: Machine> EntryRef<'_, '_, M> {
    /// Clears the accessed bit of the entry, if it is a leaf that the hardware may use and has it set.
    /// Returns the leaf as it was.
    ///
    /// Relaxed: the leaf names what its installation released, and a read-modify-write continues that
    /// release; nothing is taken from the entry but its bits.
    #[inline(always)]
    fn clear_accessed(&self) -> Option<Leaf> {
        let (cell, level) = (self.table.word(self.slot), self.table.level());
        let mut word = self.word;
        loop {
            let Entry::Leaf(leaf) = M::Format::decode(word, level) else { return None };
            let is_used = leaf.accessed && !leaf.rights.is_empty();
            if !is_used && !mutant!("accessed.idle-leaf-counted") {
                return None;
            }
            let dirty = leaf.dirty && !mutant!("accessed.dirty-cleared-too");
            let idle = M::Format::encode(Entry::Leaf(Leaf { accessed: false, dirty, ..leaf }), level);
            if mutant!("accessed.cleared-by-store") {
                cell.store(idle, Relaxed);
                return Some(leaf);
            }
            match cell.compare_exchange(word, idle, Relaxed, Relaxed) {
                Ok(_) => return Some(leaf),
                Err(now) => word = now,
            }
        }
    }
}
