//! Requests of mremap.

use crate::machine::testing::TestMachine;
use crate::space::{AddressSpace, Error, RemapFlags, RemapRequest};
use crate::units::VirtAddr;

pub(in crate::space::tests) const MAY_MOVE: RemapFlags = RemapFlags::MAY_MOVE;
pub(in crate::space::tests) const FIXED: RemapFlags = RemapFlags::MAY_MOVE.union(RemapFlags::FIXED);
pub(in crate::space::tests) const LEAVE: RemapFlags = RemapFlags::MAY_MOVE.union(RemapFlags::DONT_UNMAP);
pub(in crate::space::tests) const IN_PLACE: RemapFlags = RemapFlags::empty();

/// mremap with these lengths in bytes.
pub(in crate::space::tests) fn remap(
    space: &AddressSpace<'_, TestMachine>,
    (addr, old_len_bytes): (VirtAddr, u64),
    (to, new_len_bytes): (VirtAddr, u64),
    flags: RemapFlags,
) -> Result<VirtAddr, Error> {
    space.remap(&RemapRequest { addr, old_len_bytes, new_len_bytes, flags, to })
}
