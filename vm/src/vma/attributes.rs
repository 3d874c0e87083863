//! What a mapping says, as a plain value.

use super::{Policy, VmaFlags};
use crate::units::{Rights, Vpn, VpnRange};
use core::fmt;
use core::num::NonZeroUsize;

/// What pages are filled from: a file, an object shared by name or by fork. Opaque here; the address space
/// knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct BackingId(pub NonZeroUsize);

/// Whose private copies a mapping holds.
///
/// A mapping has none until its first private copy is made, and then keeps one for life. Copies belong to an
/// identity, not to a mapping, so pieces of one mapping share it and may be joined again; mappings with
/// different ones may not.
///
/// | value | meaning |
/// |---|---|
/// | 0 | no private copy was ever made |
/// | bit 61 clear | an identity born here |
/// | bit 61 set | *inherited*: made by a fork, its copies may still belong to an ancestor |
///
/// Bits 62 and 63 are always clear.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct AnonId(u64);

impl AnonId {
    /// No private copy was ever made.
    pub const NONE: Self = Self(0);
    /// Bits that an identity takes.
    pub const BITS: u32 = 62;
    const INHERITED: u64 = 1 << 61;

    /// An identity born here, from a number that is not 0. Numbers count up from 1 and stay below 2^61.
    pub const fn new(number: u64) -> Self {
        Self(number & (Self::INHERITED - 1))
    }
    /// The identity of that number, made by a fork.
    pub const fn inherited(number: u64) -> Self {
        Self(Self::new(number).0 | Self::INHERITED)
    }
    /// The identity whose [`bits`](Self::bits) these are.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }
    /// The value, as the table above lists it.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// Whether there is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
    /// Whether a fork made it.
    pub const fn is_inherited(self) -> bool {
        self.0 & Self::INHERITED != 0
    }
    /// Whether copies of the two may lie in one mapping: equal, or one has none yet. An inherited identity
    /// takes in nothing new, or a fork's descendants would share ever more.
    pub const fn agrees(self, other: Self) -> bool {
        if self.is_none() {
            !other.is_inherited()
        } else if other.is_none() {
            !self.is_inherited()
        } else {
            self.0 == other.0
        }
    }
    /// This identity, or the other where this is none.
    pub const fn or(self, other: Self) -> Self {
        if self.is_none() { other } else { self }
    }
}

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
    /// Private anonymous memory nobody has touched.
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

impl fmt::Debug for AnonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_none(), self.is_inherited()) {
            (true, _) => f.write_str("anon none"),
            (_, false) => write!(f, "anon {}", self.0),
            (_, true) => write!(f, "anon {} inherited", self.0 & (Self::INHERITED - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: BackingId = BackingId(NonZeroUsize::MIN);

    fn pages(start: u64, end: u64) -> VpnRange {
        VpnRange::new(Vpn(start), Vpn(end))
    }

    #[test]
    fn a_part_keeps_the_page_behind_every_page() {
        let whole = VmaAttributes::backed(pages(100, 110), VmaFlags::READ, FILE, 7);
        let part = whole.over(pages(103, 105));
        assert_eq!(part.offset, 10);
        assert_eq!(part.offset_at(Vpn(104)), whole.offset_at(Vpn(104)));
        assert_eq!(part.over(pages(100, 110)), whole);
    }

    #[test]
    fn identities_agree_when_equal_or_one_is_missing_unless_inherited() {
        let (one, two) = (AnonId::new(1), AnonId::new(2));
        let child = AnonId::inherited(1);
        assert!(one.agrees(one) && !one.agrees(two) && !one.agrees(child));
        assert!(AnonId::NONE.agrees(AnonId::NONE) && AnonId::NONE.agrees(two) && two.agrees(AnonId::NONE));
        assert!(child.agrees(child) && !child.agrees(AnonId::NONE) && !AnonId::NONE.agrees(child));
        assert_eq!(AnonId::from_bits(child.bits()), child);
    }

    #[test]
    fn moved_memory_forgets_its_birthplace_only_while_untouched() {
        let fresh = VmaAttributes::anonymous(pages(4, 6), VmaFlags::READ);
        assert_eq!(fresh.moved_to(pages(20, 22)), VmaAttributes::anonymous(pages(20, 22), VmaFlags::READ));
        let written = VmaAttributes { anon: AnonId::new(3), ..fresh };
        assert_eq!(written.moved_to(pages(20, 22)).offset, 4);
        let file = VmaAttributes::backed(pages(4, 6), VmaFlags::READ, FILE, 9);
        assert_eq!(file.moved_to(pages(20, 22)).offset, 9);
    }

    #[test]
    fn a_fault_goes_on_only_under_the_same_rights_backing_and_page() {
        let a = VmaAttributes::anonymous(pages(0, 8), VmaFlags::READ | VmaFlags::WRITE);
        let at = Vpn(5);
        assert!(same_for_fault(&a, &a.over(pages(4, 6)), at));
        assert!(same_for_fault(&a, &a.with_flags(a.flags | VmaFlags::DONT_FORK), at));
        assert!(!same_for_fault(&a, &a.over(pages(0, 5)), at));
        assert!(!same_for_fault(&a, &a.with_flags(VmaFlags::READ), at));
        assert!(!same_for_fault(&a, &VmaAttributes { offset: 1, ..a }, at));
        assert!(!same_for_fault(&a, &VmaAttributes { backing: Some(FILE), ..a }, at));
        let file = VmaAttributes::backed(pages(0, 8), VmaFlags::READ, FILE, 0);
        assert!(!same_for_fault(&file, &file.with_flags(VmaFlags::READ | VmaFlags::SHARED), at));
    }
}
