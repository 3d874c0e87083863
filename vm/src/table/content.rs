//! What a leaf can be given: values of three kinds, each of any order.
//!
//! | value | owned | from |
//! |---|---|---|
//! | [`Mapped<S>`](Mapped) | a mapping of a folio | a fault, a fork, a copy |
//! | [`ZeroLeaf`] | nothing | loads of untouched memory: the zero page, the huge one, a table of zeros |
//! | [`PfnLeaf`] | nothing | PFN mappings |
//!
//! One `install` takes them all. A size that is known at compile time ([`Base`](crate::frame::Base)) costs no
//! instruction: the level is compared with a constant, as if there were an `install` for base pages.

use super::{LeafBits, PageTable};
use crate::frame::{FolioSize, Mapped, Memory};
use crate::machine::{Leaf, LeafKind, Machine};
use crate::units::{Level, Pfn, Rights};

mod sealed {
    pub trait SealedContent {}
    impl<M: super::Machine, S: super::FolioSize> SealedContent for super::Mapped<'_, M, S> {}
    impl SealedContent for super::ZeroLeaf {}
    impl SealedContent for super::PfnLeaf {}
}

/// What an installation hands to an entry.
pub trait LeafContent<M: Machine>: sealed::SealedContent + Sized {
    /// The level of the tables whose entries hold it.
    fn level(&self) -> Option<Level>;

    /// Whether the tree may show it: it has the reference that its entries share.
    #[inline(always)]
    fn may_be_in(&self, _tree: &PageTable<'_, M>) -> bool {
        true
    }

    /// The leaf. What is owned is the entry's from now on.
    fn into_leaf(self, memory: &Memory<'_, M>, bits: LeafBits) -> Leaf;
}

impl<M: Machine, S: FolioSize> LeafContent<M> for Mapped<'_, M, S> {
    #[inline(always)]
    fn level(&self) -> Option<Level> {
        self.size().level()
    }
    #[inline(always)]
    #[track_caller]
    fn into_leaf(self, memory: &Memory<'_, M>, bits: LeafBits) -> Leaf {
        bits.leaf(self.into_entry(memory), LeafKind::OWNED)
    }
}

/// Zeros, never to be written. The zero page is that of the table's memory, so no value names another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroLeaf(Zeros);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zeros {
    /// The zero page.
    Base,
    /// The huge zero page that begins there.
    Huge(Pfn),
    /// The table of zero pages.
    ByTable(Pfn),
}

impl ZeroLeaf {
    /// The zero page.
    pub const BASE: Self = Self(Zeros::Base);

    /// The huge zero page that begins at `pfn`.
    pub(super) const fn huge(pfn: Pfn) -> Self {
        Self(Zeros::Huge(pfn))
    }

    /// The table of zero pages.
    pub(super) const fn by_table(pfn: Pfn) -> Self {
        Self(Zeros::ByTable(pfn))
    }

    /// What a leaf of zeros, in a table of `level`, shows.
    pub(crate) const fn of(leaf: Leaf, level: Level) -> Self {
        match level {
            Level::Pte => Self::BASE,
            _ if leaf.by_table() => Self::by_table(leaf.pfn),
            _ => Self::huge(leaf.pfn),
        }
    }

    /// The huge zero page, if it is that.
    pub(super) const fn as_huge(self) -> Option<Pfn> {
        match self.0 {
            Zeros::Huge(pfn) => Some(pfn),
            Zeros::Base | Zeros::ByTable(_) => None,
        }
    }

    /// The table of zero pages, if it is that.
    pub(super) const fn as_table(self) -> Option<Pfn> {
        match self.0 {
            Zeros::ByTable(pfn) => Some(pfn),
            Zeros::Base | Zeros::Huge(_) => None,
        }
    }
}

impl<M: Machine> LeafContent<M> for ZeroLeaf {
    #[inline(always)]
    fn level(&self) -> Option<Level> {
        Some(if matches!(self.0, Zeros::Base) { Level::Pte } else { Level::Pmd })
    }
    #[inline(always)]
    fn may_be_in(&self, tree: &PageTable<'_, M>) -> bool {
        matches!(self.0, Zeros::Base) || tree.holds(*self)
    }
    #[inline(always)]
    fn into_leaf(self, memory: &Memory<'_, M>, bits: LeafBits) -> Leaf {
        let denied = if mutant!("fault.zero-page-writable") { Rights::empty() } else { Rights::WRITE };
        let (pfn, kind) = match self.0 {
            Zeros::Base => (memory.zero_frame(), LeafKind::NOT_OWNED),
            Zeros::Huge(pfn) => (pfn, LeafKind::NOT_OWNED),
            Zeros::ByTable(pfn) => (pfn, LeafKind::BY_TABLE),
        };
        LeafBits { rights: bits.rights - denied, ..bits }.leaf(pfn, kind)
    }
}

/// Frames without a record, of the size that an entry of this level maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfnLeaf {
    pub(super) pfn: Pfn,
    pub(super) level: Level,
}

impl<M: Machine> LeafContent<M> for PfnLeaf {
    #[inline(always)]
    fn level(&self) -> Option<Level> {
        Some(self.level)
    }
    #[inline(always)]
    fn into_leaf(self, _memory: &Memory<'_, M>, bits: LeafBits) -> Leaf {
        bits.leaf(self.pfn, LeafKind::NOT_OWNED)
    }
}
