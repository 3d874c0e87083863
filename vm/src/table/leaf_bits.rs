//! What a leaf says besides its frame.

use crate::machine::{CacheType, Leaf, LeafKind};
use crate::units::{Pfn, Rights};

/// What a leaf says besides its frame: what may be changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeafBits {
    /// The accesses that the hardware allows.
    pub rights: Rights,
    /// Set by the hardware on any access.
    pub accessed: bool,
    /// Set by the hardware on a store.
    pub dirty: bool,
    /// How accesses are cached.
    pub cache: CacheType,
}

impl LeafBits {
    /// Bits of a leaf that is not used yet, cached as memory is.
    #[inline(always)]
    pub const fn new(rights: Rights) -> Self {
        Self { rights, accessed: false, dirty: false, cache: CacheType::WriteBack }
    }

    /// The bits after a load, or a store where `dirty`: then no walker has to mark the leaf.
    #[inline(always)]
    pub const fn used(self, dirty: bool) -> Self {
        Self { accessed: true, dirty, ..self }
    }

    /// The bits of a leaf.
    #[inline(always)]
    pub fn of(leaf: Leaf) -> Self {
        Self { rights: leaf.rights, accessed: leaf.accessed, dirty: leaf.dirty, cache: leaf.cache }
    }

    /// The leaf of a frame with these bits.
    #[inline(always)]
    pub(super) fn leaf(self, pfn: Pfn, kind: LeafKind) -> Leaf {
        let Self { rights, accessed, dirty, cache } = self;
        Leaf { pfn, rights, accessed, dirty, kind, cache }
    }
}
