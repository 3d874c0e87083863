//! A translation that was just cleared.

use super::DetachedTable;
use crate::frame::Init;
use crate::machine::{Leaf, Machine};
use crate::units::{Pfn, VpnRange};

/// A translation that was cleared, and the frame or table that it mapped. It can only be added to a gather,
/// which flushes and then frees.
#[derive(Debug)]
#[must_use = "what was unhooked must be flushed and freed"]
pub struct Unhooked {
    pages: VpnRange,
    accessed: bool,
    cleared: Cleared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleared {
    /// A frame that no mapping owns: the zero page.
    Translation,
    /// One mapping of a frame, and whether its entry was *dirty*.
    Frame(Pfn, bool),
    /// A detached table page, and the contents of its words.
    Table(Pfn, Init),
}

impl Unhooked {
    /// A leaf entry that mapped a frame without a reference: the zero page.
    pub(crate) fn translation(pages: VpnRange) -> Self {
        Self { pages, accessed: false, cleared: Cleared::Translation }
    }

    /// A leaf entry that mapped user memory.
    #[inline(always)]
    pub(crate) fn frame(pages: VpnRange, leaf: Leaf) -> Self {
        let dirty = leaf.dirty && !mutant!("unhook.dirty-dropped");
        Self { pages, accessed: leaf.accessed, cleared: Cleared::Frame(leaf.pfn, dirty) }
    }

    /// An entry that pointed to a table, and the pages that the table covered.
    pub fn table<M: Machine>(pages: VpnRange, table: DetachedTable<'_, M>) -> Self {
        let (pfn, init) = table.into_parts();
        Self { pages, accessed: false, cleared: Cleared::Table(pfn, init) }
    }

    /// Frees the frame at once, as a writer must not do.
    #[cfg(all(test, loom))]
    pub(crate) fn free_unflushed<M: Machine>(self, memory: &crate::frame::Memory<'_, M>) {
        if let Cleared::Frame(pfn, _) = self.cleared {
            memory.put_mapping(pfn);
        }
    }

    /// The pages whose translation is gone.
    pub fn pages(&self) -> VpnRange {
        self.pages
    }

    /// Whether the entry said that the page was used.
    pub fn accessed(&self) -> bool {
        self.accessed
    }

    /// Whether the entry said that the page was written. The gather notes it in the record of a frame that
    /// outlives the entry.
    pub fn dirty(&self) -> bool {
        matches!(self.cleared, Cleared::Frame(_, true))
    }

    /// The frame or table that the translation mapped.
    pub(super) fn cleared(&self) -> Cleared {
        self.cleared
    }
}
