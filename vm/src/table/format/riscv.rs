//! RISC-V: Privileged Architecture, chapter "Supervisor-Level ISA", sections on Sv39, Sv48 and Sv57.
//!
//! | bits | 63 | 62..61 | 60..54 | 53..10 | 9..8 | 7 | 6 | 5 | 4 | 3 | 2 | 1 | 0 |
//! |---|---|---|---|---|---|---|---|---|---|---|---|---|---|
//! | | N | PBMT | 0 | frame | software | D | A | G | U | X | W | R | V |
//!
//! A valid entry without R, W and X points to a table, at any level but the last. The hardware, or what
//! stands for it, sets A and D (Svadu): a platform whose hart raises a fault instead sets them in its fault
//! entry before it calls the library. A cache type other than write-back needs Svpbmt; where that is missing
//! the physical memory attributes decide.

use crate::machine::{CacheType, Entry, Format, Leaf, LeafKind, Marker};
use crate::units::{Level, Pfn, Rights};

const VALID: u64 = 1 << 0;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const USER: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;
/// Software: the entry does not own a mapping of its frame.
const NOT_OWNED: u64 = 1 << 8;
/// Software, in invalid words: a leaf without rights.
const NO_RIGHTS: u64 = 1 << 9;
const FRAME_SHIFT: u32 = 10;
const FRAME: u64 = ((1 << 44) - 1) << FRAME_SHIFT;
/// PBMT: 0 as the memory's attributes say, 1 non-cacheable, 2 strongly ordered.
const CACHE_SHIFT: u32 = 61;
/// In invalid words that are no leaf: kind of marker; its payload lies as frames do.
const MARKER_SHIFT: u32 = 1;

/// RISC-V with `LEVELS` levels of tables, 3 to 5.
#[derive(Debug)]
pub enum Riscv<const LEVELS: u32> {}

/// RISC-V, 3 levels, 39-bit addresses.
pub type Sv39 = Riscv<3>;
/// RISC-V, 4 levels, 48-bit addresses.
pub type Sv48 = Riscv<4>;
/// RISC-V, 5 levels, 57-bit addresses.
pub type Sv57 = Riscv<5>;

impl<const LEVELS: u32> Format for Riscv<LEVELS> {
    const NAME: &'static str = match LEVELS {
        3 => "RISC-V Sv39",
        4 => "RISC-V Sv48",
        _ => "RISC-V Sv57",
    };
    const ROOT: Level = match LEVELS {
        3 => Level::Pud,
        4 => Level::P4d,
        5 => Level::Pgd,
        _ => panic!("RISC-V has tables of 3 to 5 levels"),
    };
    const ADDRESS_BITS: u32 = 12 + 9 * LEVELS;
    /// A hart may keep any translation, of an invalid entry too (without Svvptc), until SFENCE.VMA. An access
    /// to a page that has just been mapped may therefore fault once more; that fault flushes the page.
    const REMEMBERS_REFUSALS: bool = true;

    #[inline(always)]
    fn encode(entry: Entry, _level: Level) -> u64 {
        match entry {
            Entry::Absent => 0,
            Entry::Table(pfn) => pfn.0 << FRAME_SHIFT | VALID,
            Entry::Leaf(leaf) => encode_leaf(leaf),
            Entry::Marker(marker) => encode_marker(marker),
        }
    }

    #[inline(always)]
    fn decode(word: u64, level: Level) -> Entry {
        let pfn = Pfn((word & FRAME) >> FRAME_SHIFT);
        if word & VALID == 0 {
            return match word {
                0 => Entry::Absent,
                _ if word & NO_RIGHTS != 0 => Entry::Leaf(decode_leaf(word, pfn, Rights::empty())),
                _ => Entry::Marker(decode_marker(word)),
            };
        }
        match word & (READ | WRITE | EXECUTE) {
            0 if level != Level::Pte => Entry::Table(pfn),
            // Reserved: the hardware faults. So it does on a leaf of a level that has none.
            0 | WRITE => Entry::Marker(Marker::UNKNOWN),
            kind if kind == WRITE | EXECUTE => Entry::Marker(Marker::UNKNOWN),
            _ => Entry::Leaf(decode_leaf(word, pfn, rights(word))),
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
    marker.kind() << MARKER_SHIFT | (marker.payload() << FRAME_SHIFT & FRAME)
}

/// Of a word that is not present, and no leaf without rights. A bit that no marker has makes it unknown.
#[cold]
fn decode_marker(word: u64) -> Marker {
    let kind = (word >> MARKER_SHIFT) & ((1 << Marker::KIND_BITS) - 1);
    let marker = Marker::from_parts(kind, (word & FRAME) >> FRAME_SHIFT);
    if encode_marker(marker) == word { marker } else { Marker::UNKNOWN }
}

#[inline(always)]
fn encode_leaf(leaf: Leaf) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let used = bit(leaf.accessed, ACCESSED) | bit(leaf.dirty, DIRTY);
    let cache = (leaf.cache as u64) << CACHE_SHIFT;
    let kept = leaf.pfn.0 << FRAME_SHIFT | used | cache | bit(!leaf.owned(), NOT_OWNED);
    if !leaf.rights.contains(Rights::READ) {
        return kept | NO_RIGHTS;
    }
    kept | VALID
        | READ
        | bit(leaf.rights.contains(Rights::WRITE), WRITE)
        | bit(leaf.rights.contains(Rights::EXECUTE), EXECUTE)
        | bit(leaf.rights.contains(Rights::USER), USER)
}

#[inline(always)]
fn decode_leaf(word: u64, pfn: Pfn, rights: Rights) -> Leaf {
    let cache = match word >> CACHE_SHIFT & 3 {
        0 => CacheType::WriteBack,
        1 => CacheType::WriteCombining,
        _ => CacheType::Device,
    };
    let (accessed, dirty) = (word & ACCESSED != 0, word & DIRTY != 0);
    let kind = if word & NOT_OWNED == 0 { LeafKind::OWNED } else { LeafKind::NOT_OWNED };
    Leaf { pfn, rights, accessed, dirty, kind, cache }
}

#[inline(always)]
fn rights(word: u64) -> Rights {
    let mut rights = Rights::empty();
    rights.set(Rights::READ, word & READ != 0);
    rights.set(Rights::WRITE, word & WRITE != 0);
    rights.set(Rights::EXECUTE, word & EXECUTE != 0);
    rights.set(Rights::USER, word & USER != 0);
    rights
}
