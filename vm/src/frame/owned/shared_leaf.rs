//! What a gather keeps of a leaf whose frames others may map too.

use crate::frame::Memory;
use crate::machine::Machine;
use crate::units::{Order, Pfn, VpnRange};

/// What a leaf had of the frame that it mapped, or of the frames from that one on: as one word, the number of
/// the frame, and the order of the leaf above it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SharedLeaf(u64);

impl SharedLeaf {
    /// Frame numbers lie below.
    const ORDER_SHIFT: u32 = 56;

    /// Of a leaf that mapped these pages.
    pub(super) fn new(pfn: Pfn, pages: VpnRange) -> Self {
        debug_assert!(pages.len().is_power_of_two(), "a leaf of {pages:?}");
        Self(pfn.0 | u64::from(pages.len().trailing_zeros()) << Self::ORDER_SHIFT)
    }

    /// Takes the mapping back, after its flush.
    pub(super) fn put<M: Machine>(self, memory: &Memory<'_, M>) {
        let pfn = Pfn(self.0 & ((1 << Self::ORDER_SHIFT) - 1));
        memory.put_mapped(pfn, Order((self.0 >> Self::ORDER_SHIFT) as u8));
    }
}
