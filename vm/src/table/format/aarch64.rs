//! AArch64, 4 KiB granule, 48-bit addresses, hardware access flag and dirty state (FEAT_HAFDBS).
//!
//! A writable page that is clean is read-only for AP[2] with DBM set: the hardware clears AP[2] on the first
//! store. So "dirty" of a writable leaf is AP[2] clear, and that of a read-only leaf is a software bit.
//!
//! A leaf *by table* has the bits of a leaf in the places that a table descriptor ignores, and says to the
//! hardware what it allows in APTable, UXNTable and PXNTable.

use crate::machine::{CacheType, Entry, Format, Leaf, LeafKind, Marker};
use crate::units::{Level, Pfn, Rights};

const VALID: u64 = 1 << 0;
/// Table above the last level, page at the last one; clear means block.
const TABLE_OR_PAGE: u64 = 1 << 1;
/// AttrIndx: the platform sets MAIR_EL1 to write-back in entry 0, non-cacheable in 1, and Device-nGnRE in 2.
const CACHE_SHIFT: u32 = 2;
const CACHE: u64 = 7 << CACHE_SHIFT;
const EL0: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESS_FLAG: u64 = 1 << 10;
const NOT_GLOBAL: u64 = 1 << 11;
const DIRTY_BIT_MODIFIER: u64 = 1 << 51;
const NO_EXECUTE_EL1: u64 = 1 << 53;
const NO_EXECUTE_EL0: u64 = 1 << 54;
/// Software: a leaf that is not writable was written before.
const WAS_DIRTY: u64 = 1 << 55;
/// Software: the kind of a leaf. Bit 56: the entry does not own a mapping of its frame.
const KIND_SHIFT: u32 = 56;
/// Software: a leaf by table. The hardware reads a table descriptor.
const BY_TABLE: u64 = 1 << (KIND_SHIFT + 1);
/// Software, in invalid words: a leaf without rights.
const NO_RIGHTS: u64 = 1 << 58;
/// In table descriptors: no access of EL0 below; no stores; no fetches of EL1, and of EL0.
const TABLE_NO_EL0: u64 = 1 << 61;
const TABLE_READ_ONLY: u64 = 1 << 62;
const TABLE_NO_EXECUTE_EL1: u64 = 1 << 59;
const TABLE_NO_EXECUTE_EL0: u64 = 1 << 60;
const FRAME: u64 = 0x0000_ffff_ffff_f000;
/// In invalid words that are no leaf: kind of marker; its payload begins where a frame does, and has the bits
/// above it, too.
const MARKER_SHIFT: u32 = 2;
const PAYLOAD: u64 = 0x000f_ffff_ffff_f000;

/// AArch64 with 4 levels.
#[derive(Debug)]
pub enum Aarch64 {}

impl Format for Aarch64 {
    const NAME: &'static str = "AArch64";
    const ROOT: Level = Level::P4d;
    const ADDRESS_BITS: u32 = 48;
    /// An entry that causes a permission fault may be held in a TLB; one that causes a translation or an
    /// access flag fault may not.
    const REMEMBERS_REFUSALS: bool = true;
    const SHOWS_BY_TABLE: bool = true;

    #[inline(always)]
    fn encode(entry: Entry, level: Level) -> u64 {
        match entry {
            Entry::Absent => 0,
            Entry::Table(pfn) => pfn.addr().0 | VALID | TABLE_OR_PAGE,
            Entry::Leaf(leaf) => encode_leaf(leaf, level),
            Entry::Marker(marker) => encode_marker(marker),
        }
    }

    #[inline(always)]
    fn decode(word: u64, level: Level) -> Entry {
        let pfn = Pfn((word & FRAME) >> 12);
        if word & VALID == 0 {
            match word {
                0 => Entry::Absent,
                _ if word & NO_RIGHTS != 0 => {
                    Entry::Leaf(leaf_of(word, pfn, Rights::empty(), word & WAS_DIRTY != 0))
                }
                _ => Entry::Marker(decode_marker(word)),
            }
        } else if level == Level::Pte || word & (TABLE_OR_PAGE | BY_TABLE) != TABLE_OR_PAGE {
            Entry::Leaf(decode_leaf(word, pfn))
        } else {
            Entry::Table(pfn)
        }
    }

    #[inline(always)]
    fn pending_free(word: u64, _level: Level) -> Option<Pfn> {
        let pfn = Pfn((word & PAYLOAD) >> 12);
        let marker = Marker::from_parts(Marker::PENDING_FREE, pfn.0);
        (word == encode_marker(marker)).then_some(pfn)
    }

    #[inline(always)]
    fn used(word: u64, store: bool) -> u64 {
        let word = word | ACCESS_FLAG;
        if store && word & DIRTY_BIT_MODIFIER != 0 { word & !READ_ONLY } else { word }
    }

    #[inline(always)]
    fn write_protected(word: u64, _level: Level) -> u64 {
        let is_writable = word & VALID != 0 && (word & DIRTY_BIT_MODIFIER != 0 || word & READ_ONLY == 0);
        if !is_writable {
            return word;
        }
        let was_dirty = if word & READ_ONLY == 0 { WAS_DIRTY } else { 0 };
        (word & !DIRTY_BIT_MODIFIER) | READ_ONLY | was_dirty
    }
}

#[inline(always)]
fn encode_marker(marker: Marker) -> u64 {
    marker.kind() << MARKER_SHIFT | (marker.payload() << 12 & PAYLOAD)
}

/// Of a word that is not present, and no leaf without rights. A bit that no marker has makes it unknown.
#[cold]
fn decode_marker(word: u64) -> Marker {
    let kind = (word >> MARKER_SHIFT) & ((1 << Marker::KIND_BITS) - 1);
    let marker = Marker::from_parts(kind, (word & PAYLOAD) >> 12);
    if encode_marker(marker) == word { marker } else { Marker::UNKNOWN }
}

/// What a table descriptor takes away from all below it, for a leaf by table.
#[cold]
fn denied_below(leaf: Leaf) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let (user, execute) = (leaf.rights.contains(Rights::USER), leaf.rights.contains(Rights::EXECUTE));
    bit(!user, TABLE_NO_EL0)
        | bit(!leaf.rights.contains(Rights::WRITE), TABLE_READ_ONLY)
        | bit(user || !execute, TABLE_NO_EXECUTE_EL1)
        | bit(!user || !execute, TABLE_NO_EXECUTE_EL0)
}

#[inline(always)]
fn encode_leaf(leaf: Leaf, level: Level) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let cache = (leaf.cache as u64) << CACHE_SHIFT;
    let kept = leaf.pfn.addr().0 | cache | bit(leaf.accessed, ACCESS_FLAG) | leaf.kind.bits() << KIND_SHIFT;
    if !leaf.rights.contains(Rights::READ) {
        return kept | NO_RIGHTS | bit(leaf.dirty, WAS_DIRTY);
    }
    let write = match (leaf.rights.contains(Rights::WRITE), leaf.dirty) {
        (true, true) => DIRTY_BIT_MODIFIER,
        (true, false) => DIRTY_BIT_MODIFIER | READ_ONLY,
        (false, true) => READ_ONLY | WAS_DIRTY,
        (false, false) => READ_ONLY,
    };
    let user = leaf.rights.contains(Rights::USER);
    let execute = leaf.rights.contains(Rights::EXECUTE);
    kept | write
        | VALID
        | INNER_SHAREABLE
        | bit(level == Level::Pte || leaf.by_table(), TABLE_OR_PAGE)
        | if leaf.by_table() { denied_below(leaf) } else { 0 }
        | bit(user, EL0 | NOT_GLOBAL)
        | bit(user || !execute, NO_EXECUTE_EL1)
        | bit(!user || !execute, NO_EXECUTE_EL0)
}

#[inline(always)]
fn decode_leaf(word: u64, pfn: Pfn) -> Leaf {
    let user = word & EL0 != 0;
    let writable = word & DIRTY_BIT_MODIFIER != 0 || word & READ_ONLY == 0;
    let no_execute = if user { NO_EXECUTE_EL0 } else { NO_EXECUTE_EL1 };
    let mut rights = Rights::READ;
    rights.set(Rights::WRITE, writable);
    rights.set(Rights::USER, user);
    rights.set(Rights::EXECUTE, word & no_execute == 0);
    let dirty = if writable { word & READ_ONLY == 0 } else { word & WAS_DIRTY != 0 };
    leaf_of(word, pfn, rights, dirty)
}

/// The leaf with the bits that valid and invalid words keep in the same places.
#[inline(always)]
fn leaf_of(word: u64, pfn: Pfn, rights: Rights, dirty: bool) -> Leaf {
    let cache = match (word & CACHE) >> CACHE_SHIFT {
        0 => CacheType::WriteBack,
        1 => CacheType::WriteCombining,
        _ => CacheType::Device,
    };
    let (accessed, kind) = (word & ACCESS_FLAG != 0, LeafKind::from_bits(word >> KIND_SHIFT));
    Leaf { pfn, rights, accessed, dirty, kind, cache }
}
