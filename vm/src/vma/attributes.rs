//! What a mapping says, as a plain value.

use super::{AnonId, BackingId, Policy, VmaFlags};
use crate::units::{Rights, Vpn, VpnRange};

/// What a mapping says. A mapping never changes; it is replaced by others made from such values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VmaAttributes {
    /// Its pages; never empty.
    pub range: VpnRange,
    /// Its attributes.
    pub flags: VmaFlags,
    /// What its pages are filled from; `None` is zeroes (private anonymous memory).
    pub backing: Option<BackingId>,
    /// Page within the backing of the first page. For private anonymous memory the page number it was born
    /// at, which differs from its place once it has been moved with copies in it.
    pub offset: u64,
    /// Whose private copies it holds.
    pub anon: AnonId,
    /// Which nodes its memory comes from.
    pub policy: Policy,
}

impl VmaAttributes {
    /// Private anonymous memory without private copies.
    pub const fn anonymous(range: VpnRange, flags: VmaFlags) -> Self {
        Self { range, flags, backing: None, offset: range.start.0, anon: AnonId::NONE, policy: Policy::LOCAL }
    }

    /// Pages of `backing` from its page `offset` on.
    pub const fn backed(range: VpnRange, flags: VmaFlags, backing: BackingId, offset: u64) -> Self {
        Self { range, flags, backing: Some(backing), offset, anon: AnonId::NONE, policy: Policy::LOCAL }
    }

    /// What the hardware may be told.
    pub fn rights(&self) -> Rights {
        self.flags.rights()
    }

    /// Whether it is private and filled with zeroes.
    pub const fn is_private_anonymous(&self) -> bool {
        self.backing.is_none()
    }

    /// Page within the backing at `vpn`, also beyond the ends.
    pub const fn offset_at(&self, vpn: Vpn) -> u64 {
        self.offset.wrapping_add(vpn.0.wrapping_sub(self.range.start.0))
    }

    /// The same mapping over other pages: a part, or more on either side.
    pub const fn over(&self, range: VpnRange) -> Self {
        Self { range, offset: self.offset_at(range.start), ..*self }
    }

    /// The same mapping with other attributes.
    pub const fn with_flags(&self, flags: VmaFlags) -> Self {
        Self { flags, ..*self }
    }

    /// The mapping as it is born at another place. Private anonymous memory without copies forgets where it
    /// was, so that it can be joined with what it lands beside.
    pub fn moved_to(&self, range: VpnRange) -> Self {
        let untouched = self.is_private_anonymous() && self.anon.is_none();
        let offset = if untouched { range.start.0 } else { self.offset };
        Self { range, offset, ..*self }
    }
}

/// Whether a fault at `vpn` may go on under `b` that began under `a`: the same rights to the same page of the
/// same backing. A stale record's look again rests on it.
pub fn same_for_fault(a: &VmaAttributes, b: &VmaAttributes, vpn: Vpn) -> bool {
    a.range.contains(vpn)
        && b.range.contains(vpn)
        && a.rights() == b.rights()
        && (a.flags ^ b.flags) & VmaFlags::SHARED == VmaFlags::empty()
        && a.backing == b.backing
        && a.offset_at(vpn) == b.offset_at(vpn)
}
