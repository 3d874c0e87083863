//! What a flush is about.

use crate::units::{Vpn, VpnRange};

/// The pages of a flush: those whose translations an edit has changed, and those that CPUs are told.
///
/// | edit | `pages` | `named` |
/// |---|---|---|
/// | base pages | their span | the same |
/// | one huge leaf | all of its pages | one of them: a TLB forgets a leaf whole |
/// | accessed bits are cleared | none | those pages |
///
/// A CPU caches a leaf as one translation, and [`Machine::flush_range`] drops it by any of its pages. What
/// copies translations page by page, as a device's tables or a guest's do, has to hear of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushRange {
    /// The span of all pages whose entries allow less than before, or map something else.
    pub pages: VpnRange,
    /// What each CPU that runs the space drops. Inside of `pages`, where these are not empty.
    pub named: VpnRange,
    /// Whether the caller holds no lock of a table. Where it does, what hears of the flush may only clear
    /// entries of its own: it may neither wait nor take tables away.
    pub may_cut: bool,
}

impl FlushRange {
    /// Of pages each of which CPUs may have cached, under the lock of a table.
    #[inline(always)]
    pub const fn of(pages: VpnRange) -> Self {
        Self { pages, named: pages, may_cut: false }
    }

    /// As [`of`](Self::of), of the pages of one leaf, which CPUs have cached as one translation.
    #[inline(always)]
    pub const fn of_leaf(pages: VpnRange) -> Self {
        Self { pages, named: first_of(pages), may_cut: false }
    }

    /// Of pages whose entries allow what they did, with bits that CPUs are to set again. No lock of a table
    /// is held.
    #[inline(always)]
    pub const fn of_bits(named: VpnRange) -> Self {
        Self { pages: VpnRange { start: named.start, end: named.start }, named, may_cut: true }
    }

    /// The same, by a caller that holds no lock of a table.
    #[inline(always)]
    pub const fn unlocked(self) -> Self {
        Self { may_cut: true, ..self }
    }

    /// The same, where what copies translations hears of the named pages alone: wrong, for mutation points.
    #[inline(always)]
    pub(crate) const fn tells_named_if(self, wrong: bool) -> Self {
        if wrong { Self { pages: self.named, ..self } } else { self }
    }
}

/// The first of the pages: a leaf has one.
#[inline(always)]
const fn first_of(pages: VpnRange) -> VpnRange {
    VpnRange { start: pages.start, end: Vpn(pages.start.0.wrapping_add(1)) }
}

#[cfg(doc)]
use super::Machine;
