//! Floor 0: plain values. Every index is its own type, so that a frame number never passes for a page number.
//!
//! *Page* is virtual, *frame* is physical. A [`Vpn`] counts pages of 4 KiB from address zero, a [`Pfn`]
//! counts frames of 4 KiB from physical zero. Ranges are half-open. Nothing here touches memory.
//!
//! # Arithmetic is total
//!
//! Numbers come from programs, so any value is allowed: no function here panics, in any build. A sum or a
//! product that does not fit saturates; a range whose end lies below its start is empty; a CPU or a node that
//! a set cannot name is ignored and never found in it. Callers that must tell an overflow from a result use
//! what returns an `Option`: [`VirtAddr::checked_add`], [`VpnRange::from_bytes`].
//!
//! | file | holds |
//! |---|---|
//! | `addr` | [`PhysAddr`], [`VirtAddr`] |
//! | `number` | [`Pfn`], [`Vpn`], [`Order`], [`SpaceId`] |
//! | `range` | half-open ranges of both |
//! | `level` | [`Level`] of a table, [`PageSize`] of a leaf |
//! | `rights` | rights of a mapping, kinds of access |
//! | `cpu` | CPUs, nodes, sets of nodes |
//! | `cpu_mask` | sets of CPUs, as wide as a platform needs them |

#![forbid(unsafe_code)]

mod addr;
mod cpu;
mod cpu_mask;
mod level;
mod number;
mod range;
mod rights;
#[cfg(all(test, not(loom)))]
mod tests;

pub use addr::{PhysAddr, VirtAddr};
pub use cpu::{CpuId, MAX_NODES, NodeId, NodeMask};
pub(crate) use cpu_mask::bits;
pub use cpu_mask::{CpuMask, CpuMaskIter, CpuWords, MAX_CPUS};
pub use level::{Level, PageSize};
pub use number::{Order, Pfn, SpaceId, Vpn};
pub use range::{PfnRange, VpnRange};
pub use rights::{Access, Rights};

/// log2 of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = 12;
/// Bytes in a base page and in a frame.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;
/// Bytes in a cache line: the unit in which CPUs take memory from each other.
pub const CACHE_LINE: usize = 64;
