//! A translation that was just cleared.

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
    /// A detached table page.
    Table(Pfn),
}

impl Unhooked {
    /// A leaf entry that mapped a frame without a reference: the zero page.
    pub fn translation(pages: VpnRange) -> Self {
        Self { pages, cleared: Cleared::Translation }
    }

    /// A leaf entry that mapped user memory.
    pub fn frame(pages: VpnRange, pfn: Pfn) -> Self {
        Self { pages, cleared: Cleared::Frame(pfn) }
    }

    /// An entry that pointed to a table, and the pages that the table covered.
    pub fn table(pages: VpnRange, pfn: Pfn) -> Self {
        Self { pages, cleared: Cleared::Table(pfn) }
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
