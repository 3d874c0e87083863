//! The pages that an edit has changed since its last flush.

use crate::machine::FlushRange;
use crate::units::{Vpn, VpnRange};

/// Pages that were edited: what CPUs are told of them, and how far they reach.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edited {
    /// What CPUs are told: the span of the pages. Of a huge leaf that came first, one page.
    named: VpnRange,
    /// Where the pages of such a leaf end; 0 without one.
    leaf_end: Vpn,
}

impl Edited {
    /// These pages, each of which a CPU may have cached.
    #[inline(always)]
    pub const fn of(pages: VpnRange) -> Self {
        Self { named: pages, leaf_end: Vpn(0) }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Adds pages each of which a CPU may have cached.
    #[inline(always)]
    pub fn add(&mut self, pages: VpnRange) {
        self.named = span_of(self.named, pages);
    }

    /// All that was added are these pages, of one huge leaf: CPUs are told one of them, as a TLB forgets the
    /// leaf whole ([`Machine::flush_range`](crate::machine::Machine::flush_range)).
    pub fn narrow_to(&mut self, leaf: FlushRange) {
        *self = Self { named: leaf.named, leaf_end: leaf.pages.end };
    }

    /// Adds what a part of the edit has changed.
    pub fn join(&mut self, part: Self) {
        self.named = joined(self.named, part.named);
        if !mutant!("parts.leaf-tells-one-page") {
            self.leaf_end = self.leaf_end.max(part.leaf_end);
        }
    }

    /// The flush of all of it.
    #[inline(always)]
    pub fn flush(self) -> FlushRange {
        let end = self.named.end.max(self.leaf_end);
        let of = FlushRange::of(VpnRange { start: self.named.start, end });
        FlushRange { named: self.named, ..of }
    }
}

/// The smallest range that holds both, either of which may be empty.
pub(super) fn joined(one: VpnRange, other: VpnRange) -> VpnRange {
    if other.is_empty() && !mutant!("parts.empty-part-joined") { one } else { span_of(one, other) }
}

/// The smallest range that holds both, of which the second is not empty.
#[inline(always)]
pub(super) fn span_of(one: VpnRange, other: VpnRange) -> VpnRange {
    if one.is_empty() {
        return other;
    }
    VpnRange::new(one.start.min(other.start), one.end.max(other.end))
}
