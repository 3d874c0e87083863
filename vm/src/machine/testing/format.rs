//! Table entries for unit tests: the plainest bits that say everything.

use crate::machine::{CacheType, Entry, Format, Leaf, LeafKind, Marker};
use crate::units::{Level, Pfn, Rights};

const PRESENT: u64 = 1;
const LEAF: u64 = 2;
const RIGHTS_SHIFT: u32 = 2;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;
const NOT_OWNED: u64 = 1 << 8;
const CACHE_SHIFT: u32 = 9;
const FRAME_SHIFT: u32 = 12;

/// The root's level as a number, and whether TLBs remember refusals; bit 0 present, 1 leaf, 2..6 rights, 6
/// accessed, 7 dirty, 8 not owned, 9..11 cache type, 12.. frame. Not present and not zero: a marker. A table
/// that is not owned is a leaf by table.
#[derive(Debug)]
pub enum Plainest<const ROOT: u8, const REMEMBERS: bool = false> {}

/// Four levels.
pub type TestFormat = Plainest<{ Level::P4d as u8 }>;

/// Four levels, for TLBs that remember refusals.
pub type RememberingFormat = Plainest<{ Level::P4d as u8 }, true>;

/// Two levels: the smallest tree that has a table to link and to cut out.
pub type TwoLevels = Plainest<{ Level::Pmd as u8 }>;

/// Three levels: the smallest tree where a table may be linked into one that is cut out.
pub type ThreeLevels = Plainest<{ Level::Pud as u8 }>;

impl<const ROOT: u8, const REMEMBERS: bool> Format for Plainest<ROOT, REMEMBERS> {
    const NAME: &'static str = "test";
    const ROOT: Level = [Level::Pte, Level::Pmd, Level::Pud, Level::P4d, Level::Pgd][ROOT as usize];
    const ADDRESS_BITS: u32 = 12 + 9 * (ROOT as u32 + 1);
    const REMEMBERS_REFUSALS: bool = REMEMBERS;
    const SHOWS_BY_TABLE: bool = true;

    fn encode(entry: Entry, _level: Level) -> u64 {
        match entry {
            Entry::Absent => 0,
            Entry::Marker(marker) => marker.kind() << 1 | marker.payload() << FRAME_SHIFT,
            Entry::Table(pfn) => pfn.0 << FRAME_SHIFT | PRESENT,
            Entry::Leaf(leaf) => {
                let used = (u64::from(leaf.accessed) * ACCESSED) | (u64::from(leaf.dirty) * DIRTY);
                let rights = u64::from(leaf.rights.bits()) << RIGHTS_SHIFT;
                let kind = (u64::from(!leaf.owned()) * NOT_OWNED) | ((leaf.cache as u64) << CACHE_SHIFT);
                let size = u64::from(!leaf.by_table()) * LEAF;
                leaf.pfn.0 << FRAME_SHIFT | used | rights | kind | size | PRESENT
            }
        }
    }

    fn decode(word: u64, _level: Level) -> Entry {
        let pfn = Pfn(word >> FRAME_SHIFT);
        match (word & PRESENT != 0, word & LEAF != 0) {
            (false, _) if word == 0 => Entry::Absent,
            (false, _) => {
                let kind = word >> 1 & ((1 << Marker::KIND_BITS) - 1);
                Entry::Marker(Marker::from_parts(kind, pfn.0))
            }
            (true, false) if word & NOT_OWNED == 0 => Entry::Table(pfn),
            (true, is_leaf) => Entry::Leaf(Leaf {
                pfn,
                rights: Rights::from_bits_truncate((word >> RIGHTS_SHIFT) as u8 & 0xf),
                accessed: word & ACCESSED != 0,
                dirty: word & DIRTY != 0,
                cache: match word >> CACHE_SHIFT & 3 {
                    0 => CacheType::WriteBack,
                    1 => CacheType::WriteCombining,
                    _ => CacheType::Device,
                },
                kind: match (is_leaf, word & NOT_OWNED == 0) {
                    (true, true) => LeafKind::OWNED,
                    (true, false) => LeafKind::NOT_OWNED,
                    (false, _) => LeafKind::BY_TABLE,
                },
            }),
        }
    }

    fn used(word: u64, store: bool) -> u64 {
        word | ACCESSED | if store { DIRTY } else { 0 }
    }
}
