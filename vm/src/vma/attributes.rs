//! The attributes of a mapping, as a plain value.

use super::{AnonId, Backing, BackingWord, HugetlbBacking, PfnBacking, Policy, VmaFlags};
use crate::units::{Pfn, Rights, Vpn, VpnRange};

/// The attributes of a mapping. A mapping never changes; it is replaced by others made from such values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VmaAttributes {
    /// Its pages; never empty.
    pub range: VpnRange,
    /// Access rights and advice.
    pub flags: VmaFlags,
    /// What it maps.
    pub backing: BackingWord,
    /// Page within the backing of the first page. For private anonymous memory the first page number at
    /// which it was mapped; it differs from `range.start` once the mapping was moved with copies in it. For
    /// PFN-mapped frames the first frame.
    pub offset: u64,
    /// Identity of its private copies.
    pub anon: AnonId,
    /// The NUMA nodes that its memory comes from.
    pub policy: Policy,
}

impl VmaAttributes {
    /// Private anonymous memory without private copies.
    pub const fn anonymous(range: VpnRange, flags: VmaFlags) -> Self {
        Self {
            range,
            flags,
            backing: BackingWord::ANONYMOUS,
            offset: range.start.0,
            anon: AnonId::NONE,
            policy: Policy::DEFAULT,
        }
    }

    /// Pages of `backing` from its page `offset` on.
    pub const fn backed(range: VpnRange, flags: VmaFlags, backing: Backing, offset: u64) -> Self {
        let backing = BackingWord::new(backing);
        Self { range, flags, backing, offset, anon: AnonId::NONE, policy: Policy::DEFAULT }
    }

    /// What a PFN mapping has, and the frame of its first page.
    pub fn pfn_mapping(&self) -> Option<(PfnBacking, Pfn)> {
        match self.backing.get() {
            Backing::Pfn(pfn) => Some((pfn, Pfn(self.offset))),
            _ => None,
        }
    }

    /// What it has of the hugetlb pool.
    pub fn hugetlb(&self) -> Option<HugetlbBacking> {
        self.backing.hugetlb()
    }

    /// The same, of private memory.
    pub fn private_hugetlb(&self) -> Option<HugetlbBacking> {
        self.hugetlb().filter(|_| self.is_private())
    }

    /// Whether a store is this mapping's alone: it copies what others have.
    pub fn is_private(&self) -> bool {
        !self.flags.contains(VmaFlags::SHARED)
    }

    /// Whether the pages `part` of it may become a mapping of their own: huge pages of the hugetlb pool are
    /// never cut. (Linux: `may_split`.)
    #[inline(always)]
    pub fn may_be_cut(&self, part: VpnRange) -> bool {
        // Most mappings are of anonymous memory of their own.
        self.is_anonymous() || self.may_backed_be_cut(part)
    }

    #[cold]
    #[inline(never)]
    fn may_backed_be_cut(&self, part: VpnRange) -> bool {
        let part = part.intersect(self.range);
        let unit = self.backing.get().page_size().pages();
        let is_end = |page: Vpn| page == self.range.start || page == self.range.end;
        let is_whole = |page: Vpn| is_end(page) || page.0.is_multiple_of(unit);
        is_whole(part.start) && is_whole(part.end) || mutant!("pool.page-cut")
    }

    /// The rights that its entries may have.
    pub fn rights(&self) -> Rights {
        self.flags.rights()
    }

    /// Whether it is anonymous memory.
    pub const fn is_anonymous(&self) -> bool {
        self.backing.is_anonymous()
    }

    /// Page within the backing at `vpn`, which may lie outside the range.
    pub const fn offset_at(&self, vpn: Vpn) -> u64 {
        self.offset.wrapping_add(vpn.0.wrapping_sub(self.range.start.0))
    }

    /// The same mapping over other pages: a part, or more on either side.
    pub const fn over(&self, range: VpnRange) -> Self {
        Self { range, offset: self.offset_at(range.start), ..*self }
    }

    /// The same mapping with other flags.
    pub const fn with_flags(&self, flags: VmaFlags) -> Self {
        Self { flags, ..*self }
    }

    /// The mapping moved to `range`. Private anonymous memory without copies gets the offset of a new mapping
    /// there, so that it can be joined with its new neighbours.
    pub fn moved_to(&self, range: VpnRange) -> Self {
        let untouched = self.is_anonymous() && self.anon.is_none();
        let offset = if untouched { range.start.0 } else { self.offset };
        Self { range, offset, ..*self }
    }
}

/// Whether a fault at `vpn` that began under `a` may go on under `b`: both give the same rights to the same
/// page of the same backing. A fault that finds its record stale asks this of the record that replaced it.
pub fn same_for_fault(a: &VmaAttributes, b: &VmaAttributes, vpn: Vpn) -> bool {
    a.range.contains(vpn)
        && b.range.contains(vpn)
        && a.rights() == b.rights()
        && (a.flags ^ b.flags) & VmaFlags::SHARED == VmaFlags::empty()
        && a.backing == b.backing
        && a.offset_at(vpn) == b.offset_at(vpn)
}
