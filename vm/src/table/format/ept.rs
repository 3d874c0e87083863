//! Intel EPT, 4 levels: SDM volume 3, section "The Extended Page Table Mechanism (EPT)", tables of entries.
//!
//! | bits | 51..12 | 11 | 10 | 9 | 8 | 7 | 6 | 5..3 | 2 | 1 | 0 |
//! |---|---|---|---|---|---|---|---|---|---|---|---|
//! | | frame | software | X for user | D | A | leaf | ignore PAT | memory type | X | W | R |
//!
//! The addresses are a guest's physical ones. All of the guest is code outside of the kernel, so every leaf
//! that has rights has [`Rights::USER`]. Accessed and dirty bits are set where the EPT pointer enables them.

use crate::machine::{CacheType, Entry, Format, Leaf, LeafKind, Marker};
use crate::units::{Level, Pfn, Rights};

const READ: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const EXECUTE: u64 = 1 << 2;
const PRESENT: u64 = READ | WRITE | EXECUTE;
const CACHE_SHIFT: u32 = 3;
const UNCACHEABLE: u64 = 0;
const WRITE_COMBINING: u64 = 1;
const WRITE_BACK: u64 = 6;
/// In `Pmd` and `Pud` entries: a leaf.
const PAGE_SIZE: u64 = 1 << 7;
const ACCESSED: u64 = 1 << 8;
const DIRTY: u64 = 1 << 9;
/// Software: the entry does not own a mapping of its frame.
const NOT_OWNED: u64 = 1 << 11;
const FRAME: u64 = 0x000f_ffff_ffff_f000;
/// Software, in words that are not present: a leaf without rights.
const NO_RIGHTS: u64 = 1 << 52;
/// In words that are neither present nor without rights: kind of marker; its payload lies as frames do.
const MARKER_SHIFT: u32 = 3;

/// Intel EPT with 4 levels, for guest-physical addresses of 48 bits.
#[derive(Debug)]
pub enum Ept {}

impl Format for Ept {
    const NAME: &'static str = "Intel EPT";
    const ROOT: Level = Level::P4d;
    const ADDRESS_BITS: u32 = 48;
    const SIGN_EXTENDED: bool = false;
    /// An EPT violation invalidates what is cached of the address.
    const REMEMBERS_REFUSALS: bool = false;

    #[inline(always)]
    fn encode(entry: Entry, level: Level) -> u64 {
        match entry {
            Entry::Absent => 0,
            Entry::Table(pfn) => pfn.addr().0 | PRESENT | ACCESSED,
            Entry::Leaf(leaf) => encode_leaf(leaf, level),
            Entry::Marker(marker) => encode_marker(marker),
        }
    }

    #[inline(always)]
    fn decode(word: u64, level: Level) -> Entry {
        let pfn = Pfn((word & FRAME) >> 12);
        if word & PRESENT == 0 {
            return match word {
                0 => Entry::Absent,
                _ if word & NO_RIGHTS != 0 => Entry::Leaf(decode_leaf(word, pfn, Rights::empty())),
                _ => Entry::Marker(decode_marker(word)),
            };
        }
        if level == Level::Pte || (word & PAGE_SIZE != 0 && level.leaf_size().is_some()) {
            Entry::Leaf(decode_leaf(word, pfn, rights(word)))
        } else {
            Entry::Table(pfn)
        }
    }

    #[inline(always)]
    fn used(word: u64, store: bool) -> u64 {
        word | ACCESSED | if store { DIRTY } else { 0 }
    }

    #[inline(always)]
    fn write_protected(word: u64, _level: Level) -> u64 {
        word & !WRITE
    }
}

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
        CacheType::WriteBack => WRITE_BACK,
        CacheType::WriteCombining => WRITE_COMBINING,
        CacheType::Device => UNCACHEABLE,
    };
    let used = bit(leaf.accessed, ACCESSED) | bit(leaf.dirty, DIRTY);
    let kept = leaf.pfn.addr().0 | used | cache << CACHE_SHIFT | bit(!leaf.owned(), NOT_OWNED);
    let kept = kept | bit(level != Level::Pte, PAGE_SIZE);
    if !leaf.rights.contains(Rights::READ) {
        return kept | NO_RIGHTS;
    }
    kept | READ
        | bit(leaf.rights.contains(Rights::WRITE), WRITE)
        | bit(leaf.rights.contains(Rights::EXECUTE), EXECUTE)
}

#[inline(always)]
fn decode_leaf(word: u64, pfn: Pfn, rights: Rights) -> Leaf {
    let cache = match word >> CACHE_SHIFT & 7 {
        WRITE_BACK => CacheType::WriteBack,
        WRITE_COMBINING => CacheType::WriteCombining,
        _ => CacheType::Device,
    };
    let (accessed, dirty) = (word & ACCESSED != 0, word & DIRTY != 0);
    let kind = if word & NOT_OWNED == 0 { LeafKind::OWNED } else { LeafKind::NOT_OWNED };
    Leaf { pfn, rights, accessed, dirty, kind, cache }
}

#[inline(always)]
fn rights(word: u64) -> Rights {
    let mut rights = Rights::USER;
    rights.set(Rights::READ, word & READ != 0);
    rights.set(Rights::WRITE, word & WRITE != 0);
    rights.set(Rights::EXECUTE, word & EXECUTE != 0);
    rights
}
