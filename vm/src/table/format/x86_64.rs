//! x86-64: Intel SDM volume 3, tables 5-15 to 5-20.

use crate::machine::{CacheType, Entry, Format, Leaf, LeafKind, Marker};
use crate::units::{Level, Pfn, Rights};

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
/// PWT and PCD: 0 is write-back, 1 write-combining once the platform has set PAT's entry 1 so (after reset it
/// is write-through), 3 uncacheable.
const CACHE_SHIFT: u32 = 3;
const CACHE: u64 = 3 << CACHE_SHIFT;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
/// In `Pmd` and `Pud` entries: a leaf. Clear in a leaf by table.
const PAGE_SIZE: u64 = 1 << 7;
/// In words that are not present: a leaf without rights. The bit is Global in present ones.
const NO_RIGHTS: u64 = 1 << 8;
/// Software: the kind of a leaf. Bit 9: the entry does not own a mapping of its frame.
const KIND_SHIFT: u32 = 9;
/// Software, in `Pmd` entries: a leaf by table. The processor reads a pointer to the table.
const BY_TABLE: u64 = 1 << (KIND_SHIFT + 1);
const NO_EXECUTE: u64 = 1 << 63;
const FRAME: u64 = 0x000f_ffff_ffff_f000;
/// In words that are neither present nor without rights: kind of marker; its payload lies as frames do.
const MARKER_SHIFT: u32 = 1;

/// x86-64 with 5 levels where `FIVE`, else 4.
#[derive(Debug)]
pub enum X86<const FIVE: bool> {}

/// x86-64, 4 levels, 48-bit addresses.
pub type X86_64 = X86<false>;
/// x86-64 with LA57: 5 levels, 57-bit addresses.
pub type X86_64La57 = X86<true>;

impl<const FIVE: bool> Format for X86<FIVE> {
    const NAME: &'static str = if FIVE { "x86-64 LA57" } else { "x86-64" };
    const ROOT: Level = if FIVE { Level::Pgd } else { Level::P4d };
    const ADDRESS_BITS: u32 = if FIVE { 57 } else { 48 };
    /// A page fault invalidates what the TLB has of the address.
    const REMEMBERS_REFUSALS: bool = false;
    const SHOWS_BY_TABLE: bool = true;

    #[inline(always)]
    fn encode(entry: Entry, level: Level) -> u64 {
        match entry {
            Entry::Absent => 0,
            Entry::Table(pfn) => pfn.addr().0 | PRESENT | WRITABLE | USER | ACCESSED,
            Entry::Leaf(leaf) => encode_leaf(leaf, level),
            Entry::Marker(marker) => encode_marker(marker),
        }
    }

    #[inline(always)]
    fn decode(word: u64, level: Level) -> Entry {
        let pfn = Pfn((word & FRAME) >> 12);
        if word & PRESENT == 0 {
            match word {
                0 => Entry::Absent,
                _ if word & NO_RIGHTS != 0 => Entry::Leaf(decode_leaf(word, pfn, Rights::empty())),
                _ => Entry::Marker(decode_marker(word)),
            }
        } else if level == Level::Pte || (word & (PAGE_SIZE | BY_TABLE) != 0 && level.leaf_size().is_some()) {
            Entry::Leaf(decode_leaf(word, pfn, rights(word)))
        } else {
            Entry::Table(pfn)
        }
    }

    #[inline(always)]
    fn pending_free(word: u64, _level: Level) -> Option<Pfn> {
        let pfn = Pfn((word & FRAME) >> 12);
        let marker = Marker::from_parts(Marker::PENDING_FREE, pfn.0);
        (word == encode_marker(marker)).then_some(pfn)
    }

    #[inline(always)]
    fn used(word: u64, store: bool) -> u64 {
        word | ACCESSED | if store { DIRTY } else { 0 }
    }

    #[inline(always)]
    fn write_protected(word: u64, _level: Level) -> u64 {
        word & !WRITABLE
    }
}

#[inline(always)]
fn encode_marker(marker: Marker) -> u64 {
    marker.kind() << MARKER_SHIFT | (marker.payload() << 12 & FRAME)
}

/// Of a word that is not present, and no leaf without rights. A bit that no marker has makes it unknown.
#[cold]
fn decode_marker(word: u64) -> Marker {
    let kind = (word >> MARKER_SHIFT) & ((1 << Marker::KIND_BITS) - 1);
    let marker = Marker::from_parts(kind, (word & FRAME) >> 12);
    if encode_marker(marker) == word { marker } else { Marker::UNKNOWN }
}

#[inline(always)]
fn encode_leaf(leaf: Leaf, level: Level) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let cache = match leaf.cache {
        CacheType::WriteBack => 0,
        CacheType::WriteCombining => 1 << CACHE_SHIFT,
        CacheType::Device => 3 << CACHE_SHIFT,
    };
    let used = bit(leaf.accessed, ACCESSED) | bit(leaf.dirty, DIRTY);
    let kept = leaf.pfn.addr().0 | used | cache | leaf.kind.bits() << KIND_SHIFT;
    let size = bit(level != Level::Pte && !leaf.by_table(), PAGE_SIZE);
    if !leaf.rights.contains(Rights::READ) {
        return kept | size | NO_RIGHTS;
    }
    kept | size
        | PRESENT
        | bit(leaf.rights.contains(Rights::WRITE), WRITABLE)
        | bit(leaf.rights.contains(Rights::USER), USER)
        | bit(!leaf.rights.contains(Rights::EXECUTE), NO_EXECUTE)
}

#[inline(always)]
fn decode_leaf(word: u64, pfn: Pfn, rights: Rights) -> Leaf {
    let cache = match (word & CACHE) >> CACHE_SHIFT {
        0 => CacheType::WriteBack,
        1 => CacheType::WriteCombining,
        _ => CacheType::Device,
    };
    let (accessed, dirty) = (word & ACCESSED != 0, word & DIRTY != 0);
    Leaf { pfn, rights, accessed, dirty, kind: LeafKind::from_bits(word >> KIND_SHIFT), cache }
}

#[inline(always)]
fn rights(word: u64) -> Rights {
    let mut rights = Rights::READ;
    rights.set(Rights::WRITE, word & WRITABLE != 0);
    rights.set(Rights::USER, word & USER != 0);
    rights.set(Rights::EXECUTE, word & NO_EXECUTE == 0);
    rights
}
