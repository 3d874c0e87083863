//! Page and frame numbers, and block orders.

use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, VirtAddr};
use core::fmt;

/// A page frame number: physical address divided by 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Pfn(pub u64);

/// A virtual page number: virtual address divided by 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Vpn(pub u64);

/// log2 of the number of frames in a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Order(pub u8);

impl Pfn {
    /// First byte of the frame. A frame from 2^52 on has no address: the bits that do not fit are dropped, as
    /// entries drop them. A window refuses addresses outside of memory in any case.
    pub const fn addr(self) -> PhysAddr {
        PhysAddr(self.0 << PAGE_SHIFT)
    }
    /// The frame `frames` further on; saturates.
    pub const fn add(self, frames: u64) -> Self {
        Self(self.0.saturating_add(frames))
    }
    /// Whether a block of `order` may start here.
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 == 0 || self.0.trailing_zeros() >= order.0 as u32
    }
}

impl Vpn {
    /// The last page that has an address.
    const LAST: Self = Self(u64::MAX >> PAGE_SHIFT);

    /// First byte of the page; saturates at the last page that has an address.
    pub const fn addr(self) -> VirtAddr {
        let page = if self.0 < Self::LAST.0 { self.0 } else { Self::LAST.0 };
        VirtAddr(page << PAGE_SHIFT)
    }
    /// The page `pages` further on; saturates.
    pub const fn add(self, pages: u64) -> Self {
        Self(self.0.saturating_add(pages))
    }
}

impl Order {
    /// One frame.
    pub const BASE: Self = Self(0);
    /// The frames of a huge page, 2 MiB.
    pub const HUGE: Self = Self(9);
    /// The largest block the buddy allocator keeps, 4 MiB.
    pub const MAX: Self = Self(10);
    /// Frames in a block of this order; saturates.
    pub const fn frames(self) -> u64 {
        match 1u64.checked_shl(self.0 as u32) {
            Some(frames) => frames,
            None => u64::MAX,
        }
    }
    /// Bytes in a block of this order; saturates.
    pub const fn bytes(self) -> usize {
        if self.0 as u32 <= PAGE_SIZE.leading_zeros() { PAGE_SIZE << self.0 } else { usize::MAX }
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pfn {:#x}", self.0)
    }
}

impl fmt::Debug for Vpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vpn {:#x}", self.0)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order {}", self.0)
    }
}

/// The number of a space. No other space of the system has it, or had it before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub u64);
