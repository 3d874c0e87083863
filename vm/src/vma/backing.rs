//! What a mapping maps.
//!
//! Whether stores of one mapping are seen by others is a fact of its own
//! ([`VmaFlags::SHARED`](super::VmaFlags::SHARED)): an object may be mapped private, as a file is by a
//! program's text and data, and then a store copies the page.
//!
//! Mappings hold the backing as a word ([`BackingWord`]): a record and its RCU head are one cache line, and
//! the backings of two mappings are compared by one compare.
//!
//! | bits | `Anonymous` | `Object` | `Hugetlb` | `Pfn` |
//! |---|---|---|---|---|
//! | 0..3 | 0 | 1 | 2 | 3 |
//! | 3..5 | 0 | 0 | size | largest size |
//! | 5..7 | 0 | 0 | bit 5: reserves | cache type |
//! | 8..64 | 0 | number of the object | the same; 0: none | 0 |
//!
//! So the word of anonymous memory is 0, and a fault asks for that by one compare.

use crate::machine::CacheType;
use crate::units::PageSize;
use core::fmt;
use core::num::NonZeroU64;

/// The number of an object, below 2^56, which no other has or had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(NonZeroU64);

/// What a mapping maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Backing {
    /// Zeros. What is stored there is the space's own: anonymous memory.
    #[default]
    Anonymous,
    /// Pages of an object: shared anonymous memory, a file, memory of the embedder.
    Object(ObjectId),
    /// Huge pages of the hugetlb pool.
    Hugetlb(HugetlbBacking),
    /// Frames without records, whose leaves are there from the start. (Linux: `VM_PFNMAP`.)
    Pfn(PfnBacking),
}

/// A mapping of the hugetlb pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HugetlbBacking {
    /// The size of its pages: not that of base pages.
    pub size: PageSize,
    /// Whether a huge page is reserved for each entry that has none. Not with an object, which counts what
    /// is reserved for it.
    pub reserves: bool,
    /// The object that has the pages; `None`: each is the mapping's own.
    pub object: Option<ObjectId>,
}

/// A PFN mapping: the mapping's offset is its first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PfnBacking {
    /// How accesses are cached.
    pub cache: CacheType,
    /// The largest leaf.
    pub largest: PageSize,
}

impl ObjectId {
    /// Object numbers lie below.
    pub const BITS: u32 = 56;

    /// The object of that number; `None` for 0, and where it has too many bits.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) if number.get() >> Self::BITS == 0 => Some(Self(number)),
            _ => None,
        }
    }

    /// The number.
    pub const fn number(self) -> NonZeroU64 {
        self.0
    }
}

impl Backing {
    /// The object that has the pages.
    pub const fn object(self) -> Option<ObjectId> {
        match self {
            Self::Object(object) => Some(object),
            Self::Hugetlb(hugetlb) => hugetlb.object,
            Self::Anonymous | Self::Pfn(_) => None,
        }
    }

    /// What it has of the hugetlb pool.
    pub const fn hugetlb(self) -> Option<HugetlbBacking> {
        match self {
            Self::Hugetlb(hugetlb) => Some(hugetlb),
            _ => None,
        }
    }

    /// The size of its pages: of entries below none is.
    pub const fn page_size(self) -> PageSize {
        match self {
            Self::Hugetlb(hugetlb) => hugetlb.size,
            _ => PageSize::Base,
        }
    }

    /// The backing of the mapping that a fork makes: nothing is reserved for a child.
    pub const fn inherited(self) -> Self {
        match self {
            Self::Hugetlb(hugetlb) => Self::Hugetlb(HugetlbBacking { reserves: false, ..hugetlb }),
            other => other,
        }
    }
}

/// A backing as mappings hold it: see the table of the module. Each backing has one word, so equal words are
/// equal backings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct BackingWord(u64);

const KIND: u64 = 7;
const OBJECT: u64 = 1;
const HUGETLB: u64 = 2;
const PFN: u64 = 3;
const SIZE_SHIFT: u32 = 3;
const RESERVES: u64 = 1 << 5;
const CACHE_SHIFT: u32 = 5;
const NUMBER_SHIFT: u32 = u64::BITS - ObjectId::BITS;

impl BackingWord {
    /// Anonymous memory.
    pub const ANONYMOUS: Self = Self(0);

    /// The word of a backing.
    pub const fn new(backing: Backing) -> Self {
        Self(match backing {
            Backing::Anonymous => 0,
            Backing::Object(object) => OBJECT | number_of(Some(object)),
            Backing::Hugetlb(HugetlbBacking { size, reserves, object }) => {
                let reserves = if reserves { RESERVES } else { 0 };
                HUGETLB | (size as u64) << SIZE_SHIFT | reserves | number_of(object)
            }
            Backing::Pfn(PfnBacking { cache, largest }) => {
                PFN | (largest as u64) << SIZE_SHIFT | (cache as u64) << CACHE_SHIFT
            }
        })
    }

    /// Whether it is anonymous memory.
    #[inline(always)]
    pub const fn is_anonymous(self) -> bool {
        self.0 == 0
    }

    /// The object that has the pages.
    #[inline(always)]
    pub const fn object(self) -> Option<ObjectId> {
        // A PFN mapping has no bit there.
        ObjectId::new(self.0 >> NUMBER_SHIFT)
    }

    /// What it has of the hugetlb pool.
    #[inline(always)]
    pub const fn hugetlb(self) -> Option<HugetlbBacking> {
        if self.0 & KIND == HUGETLB { self.get().hugetlb() } else { None }
    }

    /// Whether it is the hugetlb pool or PFN-mapped frames: such mappings are never joined. (Linux:
    /// `VM_SPECIAL`.) Of the kinds, those that have the bit of the hugetlb pool.
    #[inline(always)]
    pub const fn is_special(self) -> bool {
        self.0 & HUGETLB != 0
    }

    /// The backing.
    pub const fn get(self) -> Backing {
        let object = ObjectId::new(self.0 >> NUMBER_SHIFT);
        let size = match self.0 >> SIZE_SHIFT & 3 {
            0 => PageSize::Base,
            1 => PageSize::Huge,
            _ => PageSize::Giant,
        };
        match (self.0 & KIND, object) {
            (OBJECT, Some(object)) => Backing::Object(object),
            (HUGETLB, object) => {
                Backing::Hugetlb(HugetlbBacking { size, reserves: self.0 & RESERVES != 0, object })
            }
            (PFN, _) => {
                let cache = match self.0 >> CACHE_SHIFT & 3 {
                    1 => CacheType::WriteCombining,
                    2 => CacheType::Device,
                    _ => CacheType::WriteBack,
                };
                Backing::Pfn(PfnBacking { cache, largest: size })
            }
            _ => Backing::Anonymous,
        }
    }
}

const fn number_of(object: Option<ObjectId>) -> u64 {
    match object {
        Some(object) => object.0.get() << NUMBER_SHIFT,
        None => 0,
    }
}

impl From<Backing> for BackingWord {
    fn from(backing: Backing) -> Self {
        Self::new(backing)
    }
}

impl fmt::Debug for BackingWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}", self.0)
    }
}
