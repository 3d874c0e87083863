//! Leaves of the huge zero page: not owned, never writable, and known by the record of their frame.
//!
//! The tree holds the reference, one for all of its entries; it puts it when it ends, when no CPU has its
//! root loaded, or the translations of it cached. So a leaf needs no count of its own: mapping one, clearing
//! it and splitting it touch no line that other spaces use.

use super::{LeafBits, LockedTable, PageTable};
use crate::frame::{NoHugeZero, Priority, Taken};
use crate::machine::{Entry, Format, Leaf, Machine};
use crate::units::{Level, Pfn, Rights};

impl<M: Machine> PageTable<'_, M> {
    /// The huge zero page to map on this CPU, if the tree has a reference to it.
    #[inline]
    pub(crate) fn huge_zero(&self) -> Option<Pfn> {
        self.huge_zero.page(self.memory)
    }

    /// Takes a reference to the huge zero page to map on this CPU, unless the tree has one. Where there is no
    /// page, one is allocated as `alloc` says; `None`: not at all, and this waits for nothing.
    ///
    /// # Errors
    /// There is none, and no memory for one.
    pub(crate) fn take_huge_zero(&self, alloc: Option<Priority>) -> Result<(Pfn, Taken), NoHugeZero> {
        self.huge_zero.take(self.memory, alloc)
    }

    /// Takes a reference to the huge zero page that begins at `pfn`, unless the tree has one. The caller
    /// keeps the page there: another tree has a reference meanwhile. Waits for nothing.
    ///
    /// # Errors
    /// Too many trees use it.
    pub(crate) fn share_huge_zero(&self, pfn: Pfn) -> Result<(), NoHugeZero> {
        self.huge_zero.take_page(self.memory, pfn)
    }

    /// Whether the leaf, in a table of `level` of this tree, maps the huge zero page.
    pub(crate) fn is_huge_zero(&self, leaf: Leaf, level: Level) -> bool {
        !leaf.owned && level == Level::Pmd && self.memory.is_huge_zero(leaf.pfn)
    }
}

impl<M: Machine> LockedTable<'_, M> {
    /// Maps the huge zero page that begins at `pfn`, never to write, in a slot that is not present for the
    /// hardware.
    ///
    /// # Panics
    /// Where the tree has no reference to such a page, the table is not of the level of huge pages, or the
    /// slot is the platform's.
    pub(crate) fn install_huge_zero(&mut self, slot: usize, pfn: Pfn, bits: LeafBits) {
        let tree = self.tree();
        assert!(tree.huge_zero.holds(tree.memory, pfn), "the tree has no reference to {pfn:?}");
        assert!(self.level() == Level::Pmd, "a huge leaf in a table of {:?}", self.level());
        let denied = if mutant!("zero.huge-leaf-writable") { Rights::empty() } else { Rights::WRITE };
        let bits = LeafBits { rights: bits.rights - denied, ..bits };
        assert!(!self.table.is_platforms(slot), "a slot of the platform's");
        self.put(slot, Entry::Leaf(bits.leaf(pfn, false)));
    }

    /// Maps the huge zero page that the tree has a reference to, for loads as far as `rights` allow them,
    /// in a slot that is absent. `false`, and nothing has changed, where the slot is anything else, the
    /// table is not of the level of huge pages, or the tree has no reference.
    pub(crate) fn map_own_huge_zero(&mut self, slot: usize, rights: Rights) -> bool {
        let is_free = self.level() == Level::Pmd
            && self.read(slot) == M::Format::encode(Entry::Absent, Level::Pmd)
            && !self.table.is_platforms(slot);
        let page = if is_free { self.tree().huge_zero() } else { None };
        let Some(pfn) = page else { return false };
        let denied = if mutant!("zero.known-leaf-writable") { Rights::empty() } else { Rights::WRITE };
        self.put(slot, Entry::Leaf(LeafBits::new(rights - denied).used(false).leaf(pfn, false)));
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
