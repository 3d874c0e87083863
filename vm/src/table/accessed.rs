//! Accessed bits, counted and cleared without the lock of a table.
//!
//! Who looks for pages that are not used clears the accessed bit of each, and comes back later. That is no
//! edit of the tree: rights, frame and size stay. So it needs no lock, but everyone who does edit has to live
//! with a bit that goes away under his lock:
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
//! same word without its accessed bit. *Dirty*, rights and frame cannot differ: the first nobody clears but a
//! holder of the lock, and the others nobody changes. So what is lost is that the bit was cleared. The leaf
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
//! to be exact flushes the pages afterwards; `space::AddressSpace::scan_accessed_and_flush` does.
//!
//! So an entry that is not accessed may be cached. No flush is ever left out because a bit is clear.
//!
//! # Contiguous leaves
//!
//! Of a [group](Format::CONTIGUOUS) the hardware sets the bit in one leaf, whichever it has read. So a scan
//! takes the bits of all 16 for each, and clears all of them when it comes to the first, whether the range
//! has them or not. It does not stop inside of a group.

use super::contiguous::group_of;
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
/// Takes no lock, and blocks nobody; the read section may be one in which other things are read. Of what CPUs
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
    let (mut left, mut group) = (most, None);
    visit_entries(tree, range, reading, |found, at| {
        left = left.saturating_sub(1);
        let is_contiguous = found.is_contiguous();
        if let Entry::Leaf(leaf) = found.entry()
            && !leaf.rights.is_empty()
        {
            scan.leaves += 1;
            let used = if is_contiguous {
                found.clear_accessed_of_group(at, &mut group).then_some(leaf.used(leaf.dirty))
            } else if leaf.accessed {
                found.clear_accessed()
            } else {
                None
            };
            if let Some(leaf) = used {
                scan.accessed += 1;
                visit(pages_of(found.table.level(), at), leaf);
            }
        }
        let goes_on = left > 0 || is_contiguous && found.slot + 1 < group_of(found.slot).end;
        if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
}

/// The pages of the entry of `level` that covers `page`.
fn pages_of(level: Level, page: Vpn) -> VpnRange {
    let start = Vpn(page.0 & !(level.entry_pages() - 1));
    VpnRange { start, end: start.add(level.entry_pages()) }
}

/// The group of contiguous leaves that a scan is in: its first page, and whether any of them was accessed.
type ScannedGroup = Option<(Vpn, bool)>;

impl<M: Machine> EntryRef<'_, '_, M> {
    /// Whether any leaf of the contiguous group of the entry, which maps `page`, was accessed when the scan
    /// came to the first of them. Clears the bits of all then.
    #[cold]
    #[inline(never)]
    fn clear_accessed_of_group(&self, page: Vpn, scanned: &mut ScannedGroup) -> bool {
        let group = group_of(self.slot);
        let first = Vpn(page.0 - (self.slot - group.start) as u64);
        if let Some((known, was_accessed)) = *scanned
            && known == first
        {
            return was_accessed;
        }
        let mut was_accessed = false;
        for slot in group {
            let is_missed = mutant!("contiguous.scan-of-one") && slot != self.slot;
            let entry = EntryRef { table: self.table, slot, word: self.table.read(slot) };
            was_accessed |= !is_missed && entry.clear_accessed().is_some();
        }
        *scanned = Some((first, was_accessed));
        was_accessed
    }

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
            let idle = idle | word & M::Format::CONTIGUOUS;
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
