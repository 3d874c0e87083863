//! A translation that was just cleared.

use super::DetachedTable;
use crate::frame::Init;
use crate::machine::Machine;
use crate::units::{Pfn, VpnRange};

/// A translation that was cleared, and the frame or table that it mapped. It can only be added to a gather,
/// which flushes and then frees.
#[derive(Debug)]
#[must_use = "what was unhooked must be flushed and freed"]
pub struct Unhooked {
    pages: VpnRange,
    cleared: Cleared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleared {
    /// A frame that no mapping owns: the zero page.
    Translation,
    /// One mapping of a frame.
    Frame(Pfn),
    /// A detached table page, and the contents of its words.
    Table(Pfn, Init),
}

impl Unhooked {
    /// A leaf entry that mapped a frame without a reference: the zero page.
    pub(crate) fn translation(pages: VpnRange) -> Self {
        Self { pages, cleared: Cleared::Translation }
    }

    /// A leaf entry that mapped user memory.
    pub(crate) fn frame(pages: VpnRange, pfn: Pfn) -> Self {
        Self { pages, cleared: Cleared::Frame(pfn) }
    }

    /// An entry that pointed to a table, and the pages that the table covered.
    pub fn table<M: Machine>(pages: VpnRange, table: DetachedTable<'_, M>) -> Self {
        let (pfn, init) = table.into_parts();
        Self { pages, cleared: Cleared::Table(pfn, init) }
    }

    /// Frees the frame at once, as a writer must not do.
    #[cfg(all(test, loom))]
    pub(crate) fn free_unflushed<M: Machine>(self, memory: &crate::frame::Memory<'_, M>) {
        if let Cleared::Frame(pfn) = self.cleared {
            memory.put_mapping(pfn);
        }
    }

    /// The pages whose translation is gone.
    pub fn pages(&self) -> VpnRange {
        self.pages
    }

    /// The frame or table that the translation mapped.
    pub(super) fn cleared(&self) -> Cleared {
        self.cleared
    }
}
