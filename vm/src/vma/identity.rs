//! The backing of a mapping's pages, and the identity of its private copies.

use crate::machine::CacheType;
use crate::units::PageSize;
use core::fmt;
use core::num::NonZeroU64;

/// What pages are filled from: a file, or an object shared by name or by fork. Opaque here; the address space
/// interprets it. Or frames that were [given](Self::given), which are present from the start, or the
/// [reserved pool](Self::of_pool); no object has such a number. An object of huge pages of the pool has a
/// number that [says so](Self::of_pool_object).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct BackingId(pub NonZeroU64);

impl BackingId {
    /// Numbers of objects lie below both.
    const GIVEN: NonZeroU64 = NonZeroU64::new(1 << 63).unwrap();
    const POOL: NonZeroU64 = NonZeroU64::new(1 << 62).unwrap();
    /// Of the number of an object: it has huge pages of the pool; those of 1 GiB.
    const POOL_OBJECT: u64 = 1 << 61;
    const GIANT: u64 = 1 << 60;

    /// Frames that were given: the mapping's offset is its first frame. Leaves are cached as `cache` says and
    /// have at most this size.
    pub const fn given(cache: CacheType, largest: PageSize) -> Self {
        Self(Self::GIVEN.saturating_add((cache as u64) << 8 | largest as u64))
    }

    /// Private memory of huge pages of the reserved pool, whatever `pool` says of sharing.
    pub const fn of_pool(pool: PoolBacking) -> Self {
        Self(Self::POOL.saturating_add((pool.reserves as u64) << 8 | pool.size as u64))
    }

    /// An object of huge pages of the reserved pool of `size`; `number`, below 2^60, is no other object's.
    pub const fn of_pool_object(number: NonZeroU64, size: PageSize) -> Self {
        let giant = if size as u8 == PageSize::Giant as u8 { Self::GIANT } else { 0 };
        let bits = Self::POOL_OBJECT | giant | (number.get() & (Self::GIANT - 1));
        Self(NonZeroU64::MIN.saturating_add(bits - 1))
    }

    /// What a mapping of the reserved pool has; `None` for any other backing.
    pub const fn as_pool(self) -> Option<PoolBacking> {
        let bits = self.0.get();
        if bits & Self::GIVEN.get() != 0 {
            return None;
        }
        let (is_shared, is_giant) = if bits & Self::POOL.get() != 0 {
            (false, bits as u8 == PageSize::Giant as u8)
        } else if bits & Self::POOL_OBJECT != 0 {
            (true, bits & Self::GIANT != 0)
        } else {
            return None;
        };
        let size = if is_giant { PageSize::Giant } else { PageSize::Huge };
        Some(PoolBacking { size, reserves: !is_shared && bits >> 8 & 1 == 1, is_shared })
    }

    /// What a private mapping of the reserved pool has; `None` for any other backing.
    pub const fn as_private_pool(self) -> Option<PoolBacking> {
        match self.as_pool() {
            Some(pool) if !pool.is_shared => Some(pool),
            _ => None,
        }
    }

    /// The backing of a mapping that a fork makes of one with this backing: nothing is set aside for a child.
    pub(crate) const fn inherited(self) -> Self {
        match self.as_private_pool() {
            Some(pool) => Self::of_pool(PoolBacking { reserves: false, ..pool }),
            None => self,
        }
    }

    /// How leaves of given frames are cached, and their largest size; `None` for an object.
    pub const fn as_given(self) -> Option<(CacheType, PageSize)> {
        if self.0.get() & Self::GIVEN.get() == 0 {
            return None;
        }
        let cache = match (self.0.get() >> 8) as u8 {
            1 => CacheType::WriteCombining,
            2 => CacheType::Device,
            _ => CacheType::WriteBack,
        };
        let largest = match self.0.get() as u8 {
            1 => PageSize::Huge,
            2 => PageSize::Giant,
            _ => PageSize::Base,
        };
        Some((cache, largest))
    }
}

/// A mapping of the reserved pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolBacking {
    /// The size of its pages: not that of base pages.
    pub size: PageSize,
    /// Whether a huge page is set aside for each entry that has none. Not for those of shared memory, whose
    /// object counts what is set aside.
    pub reserves: bool,
    /// Whether it is shared memory: an object has the pages.
    pub is_shared: bool,
}

/// The identity of a mapping's private copies (Linux: `anon_vma`).
///
/// A mapping has none until its first private copy is made, and then keeps it until it is unmapped. Copies
/// belong to an identity, not to a mapping, so pieces of one mapping share it and may be joined again;
/// mappings with different identities may not.
///
/// | value | meaning |
/// |---|---|
/// | 0 | no private copy was ever made |
/// | bit 61 clear | an identity made in this address space |
/// | bit 61 set | *inherited*: made by a fork, its copies may still belong to an ancestor |
///
/// Bits 62 and 63 are always clear.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct AnonId(u64);

impl AnonId {
    /// No private copy was ever made.
    pub const NONE: Self = Self(0);
    /// Bits that an identity takes.
    pub const BITS: u32 = 62;
    const INHERITED: u64 = 1 << 61;

    /// An identity made in this address space, from a number that is not 0, below 2^61, and no other
    /// identity's.
    pub const fn new(number: u64) -> Self {
        Self(number & (Self::INHERITED - 1))
    }
    /// The identity of that number, made by a fork.
    pub const fn inherited(number: u64) -> Self {
        Self(Self::new(number).0 | Self::INHERITED)
    }
    /// The identity whose [`bits`](Self::bits) these are.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }
    /// The value, as the table above lists it.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Whether this is no identity.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
    /// Whether a fork made it.
    pub const fn is_inherited(self) -> bool {
        self.0 & Self::INHERITED != 0
    }
    /// Whether copies of the two may lie in one mapping: they are equal, or one is none. An inherited
    /// identity agrees only with itself, or a fork's descendants would share ever more.
    pub const fn agrees(self, other: Self) -> bool {
        if self.is_none() {
            !other.is_inherited()
        } else if other.is_none() {
            !self.is_inherited()
        } else {
            self.0 == other.0
        }
    }
    /// This identity, or the other where this is none.
    pub const fn or(self, other: Self) -> Self {
        if self.is_none() { other } else { self }
    }
}

impl fmt::Debug for AnonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_none(), self.is_inherited()) {
            (true, _) => f.write_str("anon none"),
            (_, false) => write!(f, "anon {}", self.0),
            (_, true) => write!(f, "anon {} inherited", self.0 & (Self::INHERITED - 1)),
        }
    }
}
