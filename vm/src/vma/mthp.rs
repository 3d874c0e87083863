//! mTHP: which folios between a base page and a huge page a write fault may install at once, as plain
//! functions. (Linux: multi-size THP, `/sys/kernel/mm/transparent_hugepage/hugepages-*kB/enabled`.)

use super::huge::allows;
use super::{HugePolicy, ThpDisable, Vma, VmaAttributes, VmaFlags, pages_of};
use crate::machine::Cpu;
use crate::units::{Order, Vpn, VpnRange};
use core::fmt;

/// When private memory gets folios of one mTHP order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u32)]
pub enum MthpPolicy {
    /// Never.
    #[default]
    Never = 0,
    /// In mappings with [`VmaFlags::HUGE_PAGE`].
    Madvise = 1,
    /// In all mappings but those with [`VmaFlags::NO_HUGE_PAGE`].
    Always = 2,
    /// As the policy of huge pages says.
    Inherit = 3,
}

/// The policies of all mTHP sizes: 16, 32, 64, 128, 256, 512 KiB and 1 MiB, of the orders 2 to 8. Two bits
/// for each order, from bit `2 * order` on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MthpPolicies(u32);

/// A set of folio orders: bit `n` for order `n`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OrderSet(u32);

impl MthpPolicy {
    /// The policy of the size, where that of huge pages is `huge`.
    pub const fn resolve(self, huge: HugePolicy) -> HugePolicy {
        match self {
            Self::Never => HugePolicy::Never,
            Self::Madvise => HugePolicy::Madvise,
            Self::Always => HugePolicy::Always,
            Self::Inherit => huge,
        }
    }
}

impl MthpPolicies {
    /// No size but base pages and huge pages.
    pub const NEVER: Self = Self(0);
    /// The smallest mTHP size: 16 KiB. (Linux has none of 8 KiB for anonymous memory.)
    pub const SMALLEST: Order = Order(2);
    /// The largest: 1 MiB.
    pub const LARGEST: Order = Order(8);

    /// The sizes, upwards.
    pub fn orders() -> impl DoubleEndedIterator<Item = Order> {
        (Self::SMALLEST.0..=Self::LARGEST.0).map(Order)
    }

    /// The number of the size, from the smallest on; `None` where it is no mTHP order.
    pub const fn index(order: Order) -> Option<usize> {
        let is_mthp = Self::SMALLEST.0 <= order.0 && order.0 <= Self::LARGEST.0;
        if is_mthp { Some((order.0 - Self::SMALLEST.0) as usize) } else { None }
    }

    /// All sizes with this policy.
    pub fn all(policy: MthpPolicy) -> Self {
        Self::orders().fold(Self::NEVER, |sizes, order| sizes.with(order, policy))
    }

    /// The same, but for the size of this order; unchanged where it is none of mTHP.
    #[must_use]
    pub const fn with(self, order: Order, policy: MthpPolicy) -> Self {
        match Self::index(order) {
            Some(_) => Self(self.0 & !(3 << (2 * order.0)) | (policy as u32) << (2 * order.0)),
            None => self,
        }
    }

    /// The policy of the size of this order: [`MthpPolicy::Never`] where it is none of mTHP.
    pub const fn policy(self, order: Order) -> MthpPolicy {
        match Self::index(order) {
            Some(_) => match self.0 >> (2 * order.0) & 3 {
                0 => MthpPolicy::Never,
                1 => MthpPolicy::Madvise,
                2 => MthpPolicy::Always,
                _ => MthpPolicy::Inherit,
            },
            None => MthpPolicy::Never,
        }
    }

    /// Whether no size is ever used, whatever the policy of huge pages.
    #[inline(always)]
    pub const fn is_never(self) -> bool {
        self.0 == 0
    }
}

impl OrderSet {
    /// No order.
    pub const EMPTY: Self = Self(0);

    /// Whether the set has no order.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the order is in the set.
    pub const fn contains(self, order: Order) -> bool {
        self.0 & bit_of(order) != 0
    }

    /// The same with one more order, if that is at most 31: none beyond is.
    #[must_use]
    pub const fn with(self, order: Order) -> Self {
        Self(self.0 | bit_of(order))
    }

    /// The same without an order.
    #[must_use]
    pub const fn without(self, order: Order) -> Self {
        Self(self.0 & !bit_of(order))
    }

    /// The orders, smallest first.
    pub fn iter(self) -> impl Iterator<Item = Order> {
        (0..u32::BITS as u8).map(Order).filter(move |&order| self.contains(order))
    }

    /// The largest order of the set.
    pub const fn largest(self) -> Option<Order> {
        if self.is_empty() { None } else { Some(Order(self.0.ilog2() as u8)) }
    }
}

/// The bit of an order; none beyond the set's.
const fn bit_of(order: Order) -> u32 {
    if (order.0 as u32) < u32::BITS { 1 << order.0 } else { 0 }
}

/// The orders of the mTHP folios that a write at `page` of the mapping may install, whose entry and the
/// entries of the folio's other pages are absent. The largest is tried first.
///
/// A folio lies in one mapping, of private anonymous memory that may be accessed.
pub fn orders_to_try(
    sizes: MthpPolicies,
    policy: HugePolicy,
    thp_disable: ThpDisable,
    vma: &VmaAttributes,
    page: Vpn,
) -> OrderSet {
    let fits = |pages| vma.is_anonymous() && vma.range.covers(pages);
    orders_where(sizes, policy, thp_disable, vma.flags, page, fits)
}

/// As [`orders_to_try`], of a record.
pub(crate) fn orders_of_fault<C: Cpu>(
    sizes: MthpPolicies,
    policy: HugePolicy,
    thp_disable: ThpDisable,
    vma: &Vma<C>,
    page: Vpn,
) -> OrderSet {
    let fits = |pages| vma.is_anonymous() && vma.range().covers(pages);
    orders_where(sizes, policy, thp_disable, vma.flags(), page, fits)
}

fn orders_where(
    sizes: MthpPolicies,
    policy: HugePolicy,
    thp_disable: ThpDisable,
    flags: VmaFlags,
    page: Vpn,
    fits: impl Fn(VpnRange) -> bool,
) -> OrderSet {
    let is_wanted = |order: &Order| allows(sizes.policy(*order).resolve(policy), thp_disable, flags);
    let wanted = MthpPolicies::orders().filter(is_wanted);
    let fits = |order: &Order| mutant!("sizes.mapping-ignored") || fits(pages_of(*order, page));
    wanted.filter(fits).fold(OrderSet::EMPTY, OrderSet::with)
}

impl fmt::Debug for MthpPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(Self::orders().map(|order| (order, self.policy(order)))).finish()
    }
}

impl fmt::Debug for OrderSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..u32::BITS as u8).map(Order).filter(|&order| self.contains(order))).finish()
    }
}
