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
//! An operation asks the class and does the same for every kind of memory: no other file matches on a class
//! (`cargo xtask layers`).

use super::PageTable;
use crate::frame::Kind;
use crate::machine::{Leaf, Machine};
use crate::units::{Level, Order};

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
    Dup,
    /// The same leaf.
    Copy,
    /// Nothing: the child's faults find it.
    Skip,
}

/// What a store does at a leaf whose folio others have too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtSharedStore {
    /// The folio is copied, whole.
    Copy,
    /// A huge leaf is split: a base page of it is copied next.
    Split,
}

/// What a pin of one page does at a huge leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtPin {
    /// It pins the page as a part of the folio.
    InPart,
    /// The leaf is split first.
    Split,
    /// It is refused.
    Refuse,
}

/// Leaves of which there is a number that rises and falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedLeaf {
    /// Huge leaves of anonymous memory.
    AnonHuge,
    /// Huge leaves of objects' memory.
    ObjectHuge,
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
            Self::Anon { .. } => AtFork::Dup,
            Self::Zero => AtFork::Copy,
            Self::Object { .. } | Self::Pfn => AtFork::Skip,
        }
    }

    /// At a store, where the folio is not *exclusive* and cannot become so.
    pub(crate) const fn at_shared_store(self) -> AtSharedStore {
        match self {
            Self::Anon { hugetlb: false } | Self::Zero => AtSharedStore::Split,
            Self::Anon { hugetlb: true } | Self::Object { .. } | Self::Pfn => AtSharedStore::Copy,
        }
    }

    /// At a pin.
    pub(crate) const fn at_pin(self) -> AtPin {
        match self {
            Self::Anon { hugetlb: true } | Self::Object { hugetlb: true } => AtPin::InPart,
            Self::Anon { hugetlb: false } | Self::Object { hugetlb: false } | Self::Zero => AtPin::Split,
            Self::Pfn => AtPin::Refuse,
        }
    }

    /// Whether it is a hugetlb page of no object.
    pub(crate) const fn is_private_hugetlb(self) -> bool {
        matches!(self, Self::Anon { hugetlb: true })
    }

    /// Whether it is the space's own: no object's, and no PFN-mapped frames.
    pub(crate) const fn is_own(self) -> bool {
        matches!(self, Self::Zero | Self::Anon { .. })
    }

    /// Whether it shows zeros.
    pub(crate) const fn is_zeros(self) -> bool {
        matches!(self, Self::Zero)
    }

    /// The number that counts such leaves of folios of this order, if one does.
    pub(crate) const fn counted(self, order: Order) -> Option<CountedLeaf> {
        match self {
            Self::Anon { hugetlb: false } if order.0 == Order::HUGE.0 => Some(CountedLeaf::AnonHuge),
            Self::Object { hugetlb: false } if order.0 == Order::HUGE.0 => Some(CountedLeaf::ObjectHuge),
            _ => None,
        }
    }
}

impl<M: Machine> PageTable<'_, M> {
    /// What a leaf of a table of `level` of this tree maps. The lock of its table is held, or the leaf is an
    /// observer's, and what this says is stale at once.
    pub(crate) fn class_of(&self, leaf: Leaf, level: Level) -> LeafClass {
        if leaf.owned() {
            let state = self.memory.meta_of(leaf.pfn).state();
            let hugetlb = state.is_hugetlb();
            let is_objects = state.kind() == Kind::Object;
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
