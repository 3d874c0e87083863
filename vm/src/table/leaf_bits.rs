//! What a leaf says besides its frame.

use crate::machine::Leaf;
use crate::units::{Pfn, Rights};

/// What a leaf says besides its frame: what may be changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafBits {
    /// The accesses that the hardware allows.
    pub rights: Rights,
    /// Set by the hardware on any access.
    pub accessed: bool,
    /// Set by the hardware on a store.
    pub dirty: bool,
}

impl LeafBits {
    /// The bits of a leaf.
    #[inline(always)]
    pub fn of(leaf: Leaf) -> Self {
        Self { rights: leaf.rights, accessed: leaf.accessed, dirty: leaf.dirty }
    }

    #[inline(always)]
    pub(super) fn leaf(self, pfn: Pfn) -> Leaf {
        Leaf { pfn, rights: self.rights, accessed: self.accessed, dirty: self.dirty }
    }
}
