//! Which pages of a mapping may be huge: policy, as plain functions.

use super::{Vma, VmaAttributes, VmaFlags};
use crate::machine::Cpu;
use crate::units::{Order, PageSize, Vpn, VpnRange};

/// When private memory gets huge pages. (Linux: `/sys/kernel/mm/transparent_hugepage/enabled`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum HugePolicy {
    /// Never.
    #[default]
    Never,
    /// In mappings with [`VmaFlags::HUGE_PAGE`].
    Madvise,
    /// In all mappings but those with [`VmaFlags::NO_HUGE_PAGE`].
    Always,
}

/// Which huge pages a process has disabled. (Linux: `PR_SET_THP_DISABLE`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u64)]
pub enum ThpDisable {
    /// The policy decides.
    #[default]
    None = 0,
    /// Huge pages only in mappings with [`VmaFlags::HUGE_PAGE`], whatever the policy
    /// (`PR_THP_DISABLE_EXCEPT_ADVISED`).
    ExceptAdvised = 1,
    /// No huge pages.
    Completely = 2,
}

impl ThpDisable {
    /// The value of a number that [`as`](Self) has made.
    pub const fn from_bits(bits: u64) -> Self {
        match bits {
            0 => Self::None,
            1 => Self::ExceptAdvised,
            _ => Self::Completely,
        }
    }
}

impl HugePolicy {
    /// Whether any mapping may have huge pages.
    pub const fn is_ever(self) -> bool {
        !matches!(self, Self::Never)
    }
}

/// The order of the folio that a fault at `page` of the mapping is to try first, where the entry of a page
/// that large is absent: [`Order::BASE`] for a base page.
///
/// A huge page lies in one mapping, of private anonymous memory that may be accessed.
pub fn order_to_try(policy: HugePolicy, thp_disable: ThpDisable, vma: &VmaAttributes, page: Vpn) -> Order {
    let fits = || vma.is_anonymous() && vma.range.covers(pages_of(Order::HUGE, page));
    order_where(policy, thp_disable, vma.flags, fits)
}

/// As [`order_to_try`], of a record: it reads no more of it than it needs.
#[inline]
pub(crate) fn order_of_fault<C: Cpu>(
    policy: HugePolicy,
    thp_disable: ThpDisable,
    vma: &Vma<C>,
    page: Vpn,
) -> Order {
    let fits = || vma.is_anonymous() && vma.range().covers(pages_of(Order::HUGE, page));
    order_where(policy, thp_disable, vma.flags(), fits)
}

/// The order for a mapping with these flags, where a huge page `fits`.
#[inline]
fn order_where(
    policy: HugePolicy,
    thp_disable: ThpDisable,
    flags: VmaFlags,
    fits: impl FnOnce() -> bool,
) -> Order {
    if allows(policy, thp_disable, flags) && fits() { Order::HUGE } else { Order::BASE }
}

/// Whether a policy, of huge pages or of one smaller size, says that a mapping with these flags gets them.
#[inline]
pub(super) fn allows(policy: HugePolicy, thp_disable: ThpDisable, flags: VmaFlags) -> bool {
    let is_advised = flags.contains(VmaFlags::HUGE_PAGE);
    let is_refused = flags.contains(VmaFlags::NO_HUGE_PAGE) && !mutant!("thp.refusal-ignored");
    let is_wanted = policy == HugePolicy::Always && thp_disable == ThpDisable::None
        || is_advised && policy.is_ever() && thp_disable != ThpDisable::Completely;
    is_wanted && !is_refused
}

/// The pages of the folio of this order that holds `page`, aligned to its size.
pub const fn pages_of(order: Order, page: Vpn) -> VpnRange {
    let start = Vpn(page.0 & !(order.frames() - 1));
    VpnRange { start, end: start.add(order.frames()) }
}

const _: () = assert!(Order::HUGE.0 == PageSize::Huge.order().0);
