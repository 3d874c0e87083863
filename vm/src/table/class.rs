//! What a leaf maps, and what that decides: one row of rules for each class.
//!
//! | class | an end of a range | fork | store | pin |
//! |---|---|---|---|---|
//! | [`Zero`](LeafClass::Zero) | split | the same leaf | replaced | replaced |
//! | [`Pfn`](LeafClass::Pfn) | split | installed again | allowed | refused |
//! | [`Anon`](LeafClass::Anon) | split | shared | reused or copied | split if huge |
//! | the same, hugetlb | refused | shared; pinned: copied | reused or copied | in part |
//! | [`Object`](LeafClass::Object) | cleared | skipped | allowed; private: copied | split if huge |
//! | the same, hugetlb | refused | skipped | allowed; private: copied | in part |
//!
//! An operation asks the class and does the same for every kind of memory: nothing else matches on a kind.

use super::PageTable;
use crate::frame::Kind;
use crate::machine::{Leaf, Machine};
use crate::units::Level;

/// What a leaf maps, as its word and the record of its frame say: what each operation asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafClass {
    /// Zeros.
    Zero,
    /// Frames without a record.
    Pfn,
    /// Anonymous memory.
    Anon {
        /// Of the hugetlb pool.
        hugetlb: bool,
    },
    /// Memory of an object.
    Object {
        /// Of the hugetlb pool.
        hugetlb: bool,
    },
}

/// What a call does at an end of its range that lies inside of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtCut {
    /// A table of smaller leaves takes its place.
    Split,
    /// It is cleared: faults bring back what is still mapped.
    Clear,
    /// Nothing: such a call was refused before.
    Keep,
}

/// What a fork gives the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtFork {
    /// One mapping more of the folio; writes copy from now on.
    Share,
    /// The same leaf.
    Copy,
    /// Nothing: the child's faults find it.
    Skip,
}

/// The rules: a row for each class.
impl LeafClass {
    /// At an end of a range.
    pub(crate) const fn at_cut(self) -> AtCut {
        match self {
            Self::Zero | Self::Pfn | Self::Anon { hugetlb: false } => AtCut::Split,
            Self::Object { hugetlb: false } => AtCut::Clear,
            Self::Anon { hugetlb: true } | Self::Object { hugetlb: true } => AtCut::Keep,
        }
    }

    /// In a private mapping that is forked.
    pub(crate) const fn at_fork(self) -> AtFork {
        match self {
            Self::Anon { .. } => AtFork::Share,
            Self::Zero => AtFork::Copy,
            Self::Object { .. } | Self::Pfn => AtFork::Skip,
        }
    }

    /// Whether a huge page is pinned in part, as it is: others are split first.
    pub(crate) const fn is_pinned_in_part(self) -> bool {
        matches!(self, Self::Anon { hugetlb: true } | Self::Object { hugetlb: true })
    }
}

impl<M: Machine> PageTable<'_, M> {
    /// What a leaf of a table of `level` of this tree maps. The lock of its table is held, or the leaf is an
    /// observer's, and what this says is stale at once.
    pub(crate) fn class_of(&self, leaf: Leaf, level: Level) -> LeafClass {
        if leaf.owned() {
            let state = self.memory.meta_of(leaf.pfn).state();
            let hugetlb = state.is_pooled();
            let is_objects = state.kind() == Kind::File;
            return if is_objects { LeafClass::Object { hugetlb } } else { LeafClass::Anon { hugetlb } };
        }
        let is_zero = if level == Level::Pte {
            leaf.pfn == self.memory.zero_frame()
        } else {
            self.is_huge_zero(leaf, level)
        };
        if is_zero { LeafClass::Zero } else { LeafClass::Pfn }
    }
}
