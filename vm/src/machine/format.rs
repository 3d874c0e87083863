//! The bits of table entries, as data.

use crate::units::{Level, Pfn, Rights};
use core::fmt;

/// The content of one slot of a table. The tag fills a word, so that copies move words: a store of parts that
/// is loaded as a whole would wait for the store buffer, in the middle of every fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Entry {
    /// Empty: a walk ends here. Always the all-zero word.
    Absent,
    /// Another table.
    Table(Pfn),
    /// A page.
    Leaf(Leaf),
    /// Not present for the hardware, but not absent either: an operation of the library is under way here.
    Marker(Marker),
}

/// A page as its entry shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaf {
    /// First frame.
    pub pfn: Pfn,
    /// The accesses that the hardware allows.
    pub rights: Rights,
    /// Set by the hardware on any access.
    pub accessed: bool,
    /// Set by the hardware on a store.
    pub dirty: bool,
    /// Whose the frame is, and what the hardware finds there.
    pub kind: LeafKind,
    /// How accesses are cached.
    pub cache: CacheType,
}

impl Leaf {
    /// A leaf that does not own its frame, not used yet, cached as memory is.
    pub const fn new(pfn: Pfn, rights: Rights) -> Self {
        let (kind, cache) = (LeafKind::NOT_OWNED, CacheType::WriteBack);
        Self { pfn, rights, accessed: false, dirty: false, kind, cache }
    }

    /// Whether the entry owns a mapping of the frame: see [`LeafKind::OWNED`].
    #[inline(always)]
    pub const fn owned(self) -> bool {
        self.kind.0 == LeafKind::OWNED.0
    }

    /// Whether the hardware finds a table in the frame: see [`LeafKind::BY_TABLE`].
    #[inline(always)]
    pub const fn by_table(self) -> bool {
        self.kind.0 & LeafKind::TABLE_BIT != 0
    }

    /// The leaf after a load, or a store where `dirty`: then no walker has to mark it.
    pub const fn used(self, dirty: bool) -> Self {
        Self { accessed: true, dirty, ..self }
    }

    /// The leaf with another cache type.
    pub const fn cached_as(self, cache: CacheType) -> Self {
        Self { cache, ..self }
    }
}

/// Whose the frame of a leaf is, and what the hardware finds there: two bits, as words of entries hold them.
/// So a fault that decodes and encodes a leaf moves both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeafKind(u8);

impl LeafKind {
    /// The entry owns a mapping of the frame, which it gives up when it is cleared.
    pub const OWNED: Self = Self(0);
    /// It owns none: the zero page, and frames that are not the library's: a device's, a guest's.
    pub const NOT_OWNED: Self = Self(1);
    /// It owns none, and the hardware finds a table in the frame, and walks on: one of 512 entries that show
    /// the zero page, which any number of slots share. Software takes the entry for a leaf of zeros. Only at
    /// level `Pmd`, never writable, and where the format [can say so](Format::SHOWS_BY_TABLE).
    pub const BY_TABLE: Self = Self(Self::TABLE_BIT | 1);

    const TABLE_BIT: u8 = 2;

    /// The kind of which [`bits`](Self::bits) are these; higher bits are not looked at. No kind has bit 1
    /// alone: a leaf of it is by table, and owns nothing.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits as u8 & 3)
    }

    /// Bit 0: it owns nothing. Bit 1: by table.
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0 as u64
    }
}

/// How the accesses to a page are cached and ordered. (Linux: `pgprot_t` of `ioremap`, `ioremap_wc`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum CacheType {
    /// As ordinary memory.
    #[default]
    WriteBack = 0,
    /// Not cached; stores may be gathered: a frame buffer.
    WriteCombining = 1,
    /// Not cached, and each access as the program makes it: registers of a device.
    Device = 2,
}

/// Why a slot is neither present nor absent: the number of a kind, and a payload. A word holds the kind in
/// [`KIND_BITS`](Marker::KIND_BITS) and the payload in the bits where a leaf has its frame, whatever they
/// are; what kinds there are, and what they mean, is up to [`SlotMarker`](crate::table::SlotMarker).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Marker(u64);

impl Marker {
    /// Bits of a word that hold the kind.
    pub const KIND_BITS: u32 = 5;
    /// Bits of a payload that every format holds.
    pub const PAYLOAD_BITS: u32 = 40;
    /// The one kind that owns something a table is freed with: a mapping of the frame that is its payload.
    pub const PENDING_FREE: u64 = 4;
    /// A word that is no entry: no format writes another word for it, and no kind has its number.
    pub const UNKNOWN: Self = Self::from_parts(2, 0);

    const KIND: u64 = (1 << Self::KIND_BITS) - 1;

    /// The marker of a kind, which is not 0, and a payload. Bits that neither has are dropped.
    #[inline(always)]
    pub const fn from_parts(kind: u64, payload: u64) -> Self {
        Self(payload << Self::KIND_BITS | kind & Self::KIND)
    }

    /// The number of its kind.
    #[inline(always)]
    pub const fn kind(self) -> u64 {
        self.0 & Self::KIND
    }

    /// Its payload.
    #[inline(always)]
    pub const fn payload(self) -> u64 {
        self.0 >> Self::KIND_BITS
    }
}

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "marker of kind {} with {:#x}", self.kind(), self.payload())
    }
}

/// The bit layout of one architecture's tables. Implementations are types without values; see
/// `table::format`.
///
/// # Rules
///
/// 1. `encode(Entry::Absent, _) == 0`, and `decode(encode(e, l), l) == e` for every entry that level `l` can
///    hold; a level holds markers of every kind but 0, with payloads of
///    [`PAYLOAD_BITS`](Marker::PAYLOAD_BITS).
/// 2. The hardware never follows a word that decodes as `Absent` or `Marker`.
/// 3. `write_protected(encode(Entry::Leaf(leaf), l), l)` is the word of the same leaf without
///    `Rights::WRITE`.
/// 4. Of a leaf [by table](LeafKind::BY_TABLE) that allows something, the hardware reads a pointer to the
///    table in `pfn`, and allows below it no more than the leaf's rights.
pub trait Format: Sized + 'static {
    /// Name, for reports.
    const NAME: &'static str;
    /// Level of the root table.
    const ROOT: Level;
    /// Number of significant bits of an address.
    const ADDRESS_BITS: u32;
    /// Whether the bits above repeat the highest significant one, as in a virtual address. Else they are 0,
    /// as in a physical address that a guest uses.
    const SIGN_EXTENDED: bool = true;
    /// Whether a TLB may keep a translation that refuses an access, and go on to refuse it after the entry
    /// allows it. Then a fault that gives an entry more rights, or finds that it has them, flushes the page
    /// on the CPU it runs on; no other CPU is asked to, each learns of them by a fault of its own. Such a TLB
    /// may also keep that an entry was `Absent` or a `Marker` (RISC-V without Svvptc): a fault that fills
    /// the entry flushes nothing, so the access may fault once more, and that fault finds the rights and
    /// flushes. Where false, a refused access makes the TLB drop what it has of the page, and what decodes as
    /// `Absent` or `Marker` is never kept.
    const REMEMBERS_REFUSALS: bool;

    /// Whether a leaf may be [by table](LeafKind::BY_TABLE): a pointer to a table bears rights that hold for
    /// all below it, an accessed bit that hardware sets or ignores, and a bit of software's.
    const SHOWS_BY_TABLE: bool = false;

    /// The word for an entry of `level`.
    fn encode(entry: Entry, level: Level) -> u64;
    /// The entry of a word in a table of `level`. Total: every word has an entry.
    fn decode(word: u64, level: Level) -> Entry;
    /// The word after the hardware's walker has used it for a load or, where `store`, for a store: accessed
    /// and dirty bits set. Used by software walkers.
    fn used(word: u64, store: bool) -> u64;

    /// The frame of a word that decodes as a marker of the kind [`PENDING_FREE`](Marker::PENDING_FREE). An
    /// edit asks for one with each page that others map too: a format may find it without decoding.
    #[inline(always)]
    fn pending_free(word: u64, level: Level) -> Option<Pfn> {
        match Self::decode(word, level) {
            Entry::Marker(marker) if marker.kind() == Marker::PENDING_FREE => Some(Pfn(marker.payload())),
            _ => None,
        }
    }

    /// The word of a leaf of `level`, without the right to write. Of a word that is no leaf's, any. Fork asks
    /// for one with each page: a format may find it without decoding.
    #[inline(always)]
    fn write_protected(word: u64, level: Level) -> u64 {
        match Self::decode(word, level) {
            Entry::Leaf(leaf) => {
                let rights = leaf.rights - Rights::WRITE;
                Self::encode(Entry::Leaf(Leaf { rights, ..leaf }), level)
            }
            _ => word,
        }
    }
}
