//! Leaves of the huge zero page: not owned, never writable, and known by the record of their frame, or by
//! what the entry says: a leaf *by table* ([`zero_table`](super::zero_table)).
//!
//! The tree holds the reference, one for all of its entries; it puts it when it ends, when no CPU has its
//! root loaded, or the translations of it cached. So a leaf needs no count of its own: mapping one, clearing
//! it and splitting it touch no line that other spaces use.

use super::content::{LeafContent, ZeroLeaf};
use super::{LeafBits, LockedTable, PageTable};
use crate::frame::{NoHugeZero, Priority, Taken};
use crate::machine::{Entry, Format, Leaf, Machine};
use crate::units::{Level, Pfn, Rights};

/// What shows 2 MiB of zeros by one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HugeZeroKind {
    /// A page of 2 MiB.
    Page,
    /// A table of small zero pages.
    Table,
}

impl HugeZeroKind {
    #[inline(always)]
    fn leaf(self, pfn: Pfn) -> ZeroLeaf {
        match self {
            Self::Page => ZeroLeaf::huge(pfn),
            Self::Table => ZeroLeaf::by_table(pfn),
        }
    }
}

impl<M: Machine> PageTable<'_, M> {
    /// The huge zero page to map on this CPU, if the tree has a reference to it; or the table.
    #[inline]
    pub(crate) fn huge_zero(&self, kind: HugeZeroKind) -> Option<ZeroLeaf> {
        self.zero_to_map(kind).map(|pfn| kind.leaf(pfn))
    }

    #[inline(always)]
    fn zero_to_map(&self, kind: HugeZeroKind) -> Option<Pfn> {
        match kind {
            HugeZeroKind::Page => self.huge_zero.page(self.memory),
            HugeZeroKind::Table if M::Format::SHOWS_BY_TABLE => self.memory.zero_pages().table(),
            HugeZeroKind::Table => None,
        }
    }

    /// Takes a reference to the huge zero page to map on this CPU, unless the tree has one; a table needs
    /// none. Where there is no page, or table, one is allocated as `alloc` says; `None`: not at all, and this
    /// waits for nothing.
    ///
    /// # Errors
    /// There is none, and no memory for one.
    pub(crate) fn take_huge_zero(
        &self,
        kind: HugeZeroKind,
        alloc: Option<Priority>,
    ) -> Result<(ZeroLeaf, Taken), NoHugeZero> {
        let (pfn, taken) = match kind {
            HugeZeroKind::Page => self.huge_zero.take(self.memory, alloc)?,
            HugeZeroKind::Table => self.take_zero_table(alloc)?,
        };
        Ok((kind.leaf(pfn), taken))
    }

    /// Takes a reference to a huge zero page, unless the tree has one. The caller keeps the page there:
    /// another tree has a reference meanwhile. Waits for nothing.
    ///
    /// # Errors
    /// Too many trees use it.
    pub(crate) fn dup_huge_zero(&self, zero: ZeroLeaf) -> Result<(), NoHugeZero> {
        zero.as_huge().map_or(Ok(()), |pfn| self.huge_zero.take_page(self.memory, pfn))
    }

    /// Whether the tree may map it: it has a reference to the page, or there is such a table, and the format
    /// can show it. Elsewhere a word of such a leaf would be one of 2 MiB of frames.
    #[cold]
    #[inline(never)]
    pub(super) fn holds(&self, zero: ZeroLeaf) -> bool {
        let is_table = |pfn| M::Format::SHOWS_BY_TABLE && self.memory.zero_pages().is_table(pfn);
        zero.as_table().is_some_and(is_table)
            || zero.as_huge().is_some_and(|pfn| self.huge_zero.holds(self.memory, pfn))
    }

    /// Whether the leaf, in a table of `level` of this tree, maps the huge zero page, or shows one by table.
    pub(crate) fn is_huge_zero(&self, leaf: Leaf, level: Level) -> bool {
        let is_page = || self.memory.meta(leaf.pfn).is_some_and(|meta| meta.state().is_huge_zero());
        !leaf.owned() && level == Level::Pmd && (leaf.by_table() || is_page())
    }
}

impl<M: Machine> LockedTable<'_, M> {
    /// Maps the huge zero page that the tree has a reference to, or shows it by table, for loads as far as
    /// `rights` allow them, in a slot that is absent. `false`, and nothing has changed, where the slot is
    /// anything else, the table is not of the level of huge pages, or the tree has no reference.
    #[inline(always)]
    pub(crate) fn map_own_huge_zero(&mut self, slot: usize, rights: Rights, kind: HugeZeroKind) -> bool {
        let is_free = self.level() == Level::Pmd
            && self.read(slot) == M::Format::encode(Entry::Absent, Level::Pmd)
            && !self.table.is_platforms(slot);
        let page = if is_free { self.tree().zero_to_map(kind) } else { None };
        let Some(pfn) = page else { return false };
        // Not by `install`: the three questions were just asked.
        let leaf = kind.leaf(pfn).into_leaf(self.tree().memory, LeafBits::new(rights).used(false));
        self.put(slot, Entry::Leaf(leaf));
        true
    }

    /// The leaf in `slot`, if it maps the huge zero page.
    pub(crate) fn huge_zero_leaf(&self, slot: usize) -> Option<Leaf> {
        match self.entry(slot) {
            Entry::Leaf(leaf) if self.tree().is_huge_zero(leaf, self.level()) => Some(leaf),
            _ => None,
        }
    }

    /// Whether the huge zero page is mapped in `slot`, and may be loaded from.
    pub(crate) fn is_readable_zero(&self, slot: usize) -> bool {
        self.huge_zero_leaf(slot).is_some_and(|leaf| leaf.rights.contains(Rights::READ))
    }
}
