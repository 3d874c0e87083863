//! Which base pages may be collapsed into a huge one: policy, as plain functions.

use super::{HugePolicy, ThpDisable, VmaAttributes, order_to_try};
use crate::units::{Order, Rights, Vpn};
use core::fmt;

/// What wants a collapse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requester {
    /// The program, of this range, now: whatever the system's policy. (Linux: `MADV_COLLAPSE`.)
    Program,
    /// A scanner in the background, as the policy says. (Linux: khugepaged.)
    Scanner,
}

/// How many pages of a region may lack memory of their own for it to be collapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CollapseLimits {
    /// The most pages that hold nothing: they take memory then. (Linux: `max_ptes_none`.)
    pub max_none: u32,
    /// The most pages whose frames other spaces map too: they are copied. (Linux: `max_ptes_shared`.)
    pub max_shared: u32,
    /// The most pages that are swapped out. None is yet. (Linux: `max_ptes_swap`.)
    pub max_swapped: u32,
}

impl CollapseLimits {
    /// No limits, as for [`Requester::Program`].
    pub const NONE: Self = Self { max_none: u32::MAX, max_shared: u32::MAX, max_swapped: u32::MAX };
    /// Those that Linux begins with: a page in use is enough, half of them may be shared, an eighth swapped.
    pub const LINUX: Self = Self { max_none: 511, max_shared: 256, max_swapped: 64 };
}

/// What the pages of a region hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionCounts {
    /// Memory of their own, or shared.
    pub present: u32,
    /// Of these, memory that other spaces map too.
    pub shared: u32,
    /// Of these, memory that is pinned, or may be.
    pub referenced: u32,
    /// Nothing, or the zero page.
    pub none: u32,
    /// Contents that were swapped out.
    pub swapped: u32,
    /// Anything else: entries that an operation under way has left.
    pub others: u32,
}

/// Why a region is not collapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CollapseRefusal {
    /// The mapping has no huge pages: not private memory, refused, or it does not hold all of the region.
    Mapping,
    /// No page of the region has memory.
    Empty,
    /// More pages than allowed hold nothing.
    TooManyNone,
    /// More pages than allowed are shared.
    TooManyShared,
    /// More pages than allowed are swapped out.
    TooManySwapped,
    /// A page is pinned, or there is another reference to it.
    Referenced,
    /// An operation is under way, or too many pages were written while they were copied.
    Busy,
    /// No block is free.
    NoMemory,
}

/// Whether the region of `page` may be collapsed, as far as its mapping says. `policy` and `thp_disable` are
/// the system's and the process's.
///
/// A program that asks for it overrules the system's policy, and a `PR_SET_THP_DISABLE` that excepts advised
/// memory; its memory need not be accessible now. (Linux: MADV_COLLAPSE; `PR_THP_DISABLE_EXCEPT_ADVISED` of
/// 6.18.)
pub fn may_collapse(
    requester: Requester,
    (policy, thp_disable): (HugePolicy, ThpDisable),
    vma: &VmaAttributes,
    page: Vpn,
) -> bool {
    let (policy, thp_disable) = match (requester, thp_disable) {
        (Requester::Scanner, _) => (policy, thp_disable),
        (Requester::Program, ThpDisable::Completely) => (HugePolicy::Always, ThpDisable::Completely),
        (Requester::Program, _) => (HugePolicy::Always, ThpDisable::None),
    };
    let is_used = requester == Requester::Program || vma.rights().contains(Rights::READ);
    is_used && order_to_try(policy, thp_disable, vma, page) == Order::HUGE
}

/// Why a region with these pages is not collapsed; `None` where it may be.
pub fn refuse_counts(counts: &RegionCounts, limits: &CollapseLimits) -> Option<CollapseRefusal> {
    let refusals = [
        (counts.present == 0, CollapseRefusal::Empty),
        (counts.others > 0, CollapseRefusal::Busy),
        (counts.referenced > 0, CollapseRefusal::Referenced),
        (counts.none > limits.max_none, CollapseRefusal::TooManyNone),
        (counts.shared > limits.max_shared, CollapseRefusal::TooManyShared),
        (counts.swapped > limits.max_swapped, CollapseRefusal::TooManySwapped),
    ];
    refusals.into_iter().find_map(|(is_refused, why)| is_refused.then_some(why))
}

impl VmaAttributes {
    /// Whether the mapping may have huge pages that a program asks for, and room for one.
    pub fn may_be_collapsed(&self, thp_disable: ThpDisable) -> bool {
        let first = Vpn(self.range.start.0.saturating_add(Order::HUGE.frames() - 1));
        may_collapse(Requester::Program, (HugePolicy::Never, thp_disable), self, first)
    }
}

impl fmt::Display for CollapseRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CollapseRefusal::Mapping => "the mapping has no huge pages",
            CollapseRefusal::Empty => "no page has memory",
            CollapseRefusal::TooManyNone => "too many pages hold nothing",
            CollapseRefusal::TooManyShared => "too many pages are shared",
            CollapseRefusal::TooManySwapped => "too many pages are swapped out",
            CollapseRefusal::Referenced => "a page is pinned",
            CollapseRefusal::Busy => "pages are in use by another operation",
            CollapseRefusal::NoMemory => "no block of memory is free",
        })
    }
}

impl core::error::Error for CollapseRefusal {}
