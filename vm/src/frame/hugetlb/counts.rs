//! The counts of the pool.

use crate::machine::Cpu;
use crate::sync::{SpinLock, lockdep};

/// Number of huge pages of one size that the hugetlb pool has. (Linux: `/proc/meminfo`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HugetlbCounts {
    /// All, in use or not. (Linux: `HugePages_Total`.)
    pub total: u64,
    /// Not in use. (Linux: `HugePages_Free`.)
    pub free: u64,
    /// Of the free ones, those that are kept for pages that were not touched yet. (Linux: `HugePages_Rsvd`.)
    pub reserved: u64,
    /// Those that leave the pool once they are not in use. (Linux: `HugePages_Surp`.)
    pub surplus: u64,
}

/// The pools of both sizes.
#[derive(Debug)]
pub(in crate::frame) struct HugetlbPools<C: Cpu> {
    pub(super) sizes: [SpinLock<HugetlbState, C, { lockdep::HUGETLB.0 }>; 2],
}

/// The counts of the module's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HugetlbState {
    pub total: u64,
    pub free: u64,
    pub reserved: u64,
    pub away: u64,
    pub astray: u64,
    pub surplus: u64,
    pub copies: u64,
    pub owner_unmaps: u64,
    pub begun: u64,
}

impl<C: Cpu> HugetlbPools<C> {
    pub const fn new() -> Self {
        Self { sizes: [const { SpinLock::new(HugetlbState::EMPTY) }; 2] }
    }
}

impl HugetlbState {
    const EMPTY: Self = Self {
        total: 0,
        free: 0,
        reserved: 0,
        away: 0,
        astray: 0,
        surplus: 0,
        copies: 0,
        owner_unmaps: 0,
        begun: 0,
    };

    /// What is told of them.
    pub const fn told(&self) -> HugetlbCounts {
        let Self { total, free, reserved, surplus, .. } = *self;
        HugetlbCounts { total, free, reserved, surplus }
    }

    /// Those that are not reserved.
    pub const fn available(&self) -> u64 {
        (self.free + self.away).saturating_sub(self.reserved)
    }

    /// Those that stay once all are back.
    pub const fn persistent(&self) -> u64 {
        self.total - self.surplus
    }
}
