//! Byte addresses.

use super::{PAGE_SHIFT, PAGE_SIZE, Pfn, Vpn};
use core::fmt;

/// A physical byte address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PhysAddr(pub u64);

/// A virtual byte address, canonical or not: callers may pass any value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct VirtAddr(pub u64);

impl PhysAddr {
    /// The frame that holds this byte.
    pub const fn pfn(self) -> Pfn {
        Pfn(self.0 >> PAGE_SHIFT)
    }
    /// Bytes from the start of the frame.
    pub const fn offset(self) -> usize {
        self.0 as usize & (PAGE_SIZE - 1)
    }
}

impl VirtAddr {
    /// The page that holds this byte.
    pub const fn vpn(self) -> Vpn {
        Vpn(self.0 >> PAGE_SHIFT)
    }
    /// Bytes from the start of the page.
    pub const fn offset(self) -> usize {
        self.0 as usize & (PAGE_SIZE - 1)
    }
    /// Whether the address is the first byte of a page.
    pub const fn is_page_aligned(self) -> bool {
        self.offset() == 0
    }
    /// The address `bytes` further on, unless that overflows.
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(a) => Some(Self(a)),
            None => None,
        }
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "phys {:#x}", self.0)
    }
}

impl fmt::Debug for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "virt {:#x}", self.0)
    }
}
