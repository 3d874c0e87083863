//! Which pages of shared memory may be huge: policy, as plain functions.

use super::huge::{allows, pages_of};
use super::{HugePolicy, ThpDisable, Vma, VmaAttributes};
use crate::machine::Cpu;
use crate::units::{Order, Vpn, VpnRange};

/// When shared anonymous memory gets huge pages. (Linux:
/// `/sys/kernel/mm/transparent_hugepage/shmem_enabled`, of which `within_size`, `deny` and `force` are
/// about files and tests.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SharedHugePolicy {
    /// Never.
    #[default]
    Never,
    /// By faults of mappings with [`VmaFlags::HUGE_PAGE`](super::VmaFlags::HUGE_PAGE).
    Advise,
    /// By faults of all mappings but those with [`VmaFlags::NO_HUGE_PAGE`](super::VmaFlags::NO_HUGE_PAGE).
    Always,
}

impl SharedHugePolicy {
    /// Whether any shared memory may have huge pages.
    pub const fn is_ever(self) -> bool {
        !matches!(self, Self::Never)
    }

    const fn of_faults(self) -> HugePolicy {
        match self {
            Self::Never => HugePolicy::Never,
            Self::Advise => HugePolicy::Madvise,
            Self::Always => HugePolicy::Always,
        }
    }
}

/// What a fault may do with a huge page of shared memory around its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedHugeUse {
    /// Nothing: it maps a base page.
    None,
    /// Map one that the memory has. (Linux: `do_set_pmd`, which does not ask `shmem_enabled`.)
    Map,
    /// Map one, and give the memory one where it has no page there.
    Fill,
}

/// What a fault at `page` of a mapping of shared memory may do with a huge page, where the entry of a page
/// that large is absent.
///
/// The huge page lies in one mapping, whose pages are those of the memory at the same place within a huge
/// page.
pub fn shared_huge_use(
    policy: SharedHugePolicy,
    thp_disable: ThpDisable,
    vma: &VmaAttributes,
    page: Vpn,
) -> SharedHugeUse {
    use_where(policy, thp_disable, vma.flags, || fits(vma.range, vma.offset_at(page), page))
}

/// As [`shared_huge_use`], of a record.
pub(crate) fn shared_huge_use_of_fault<C: Cpu>(
    policy: SharedHugePolicy,
    thp_disable: ThpDisable,
    vma: &Vma<C>,
    page: Vpn,
) -> SharedHugeUse {
    use_where(policy, thp_disable, vma.flags(), || fits(vma.range(), vma.frame_offset(page), page))
}

fn use_where(
    policy: SharedHugePolicy,
    thp_disable: ThpDisable,
    flags: super::VmaFlags,
    fits: impl FnOnce() -> bool,
) -> SharedHugeUse {
    if !allows(HugePolicy::Always, thp_disable, flags) || !fits() {
        SharedHugeUse::None
    } else if allows(policy.of_faults(), thp_disable, flags) {
        SharedHugeUse::Fill
    } else {
        SharedHugeUse::Map
    }
}

/// Whether the huge page around `page`, which is page `offset` of the memory, lies in the range, and is
/// one of the memory.
fn fits(range: VpnRange, offset: u64, page: Vpn) -> bool {
    let inside = |page: u64| page % Order::HUGE.frames();
    let is_congruent = inside(page.0) == inside(offset) || mutant!("shared-thp.offset-ignored");
    is_congruent && range.covers(pages_of(Order::HUGE, page))
}
