//! Calls about memory of files: their words checked in Linux's order.

use crate::Errno;
use core::ops::Deref;
use interleaf::machine::Machine;
use interleaf::space::{AddressSpace, ObjectReach, SpaceId, SyncMode};
use interleaf::units::{PAGE_SIZE, VirtAddr};
use linux_raw_sys::general::{MADV_REMOVE, MS_ASYNC, MS_INVALIDATE, MS_SYNC};

/// `MADV_REMOVE`, which [`madvise`](crate::madvise) does not know: it needs to find spaces.
pub const REMOVE: i32 = MADV_REMOVE as i32;

/// `msync(addr, len, flags)`. Spaces are found by `hold`.
///
/// # Errors
/// [`Errno::EINVAL`] for unknown flags, for `MS_ASYNC` with `MS_SYNC`, and an unaligned start; then as
/// [`AddressSpace::sync`]. A length that wraps as it is rounded up to pages is none, as in Linux.
pub fn msync<'v, M: Machine, S>(
    space: &AddressSpace<'v, M>,
    addr: u64,
    len_bytes: u64,
    flags: u32,
    hold: impl Fn(SpaceId) -> Option<S>,
) -> Result<(), Errno>
where
    S: Deref<Target = AddressSpace<'v, M>>,
{
    let (waits, begins) = (flags & MS_SYNC != 0, flags & MS_ASYNC != 0);
    if flags & !(MS_ASYNC | MS_INVALIDATE | MS_SYNC) != 0 || (waits && begins) {
        return Err(Errno::EINVAL);
    }
    if !addr.is_multiple_of(PAGE_SIZE as u64) {
        return Err(Errno::EINVAL);
    }
    let mode = match (waits, flags & MS_INVALIDATE != 0) {
        (true, true) => SyncMode::SyncInvalidate,
        (true, false) => SyncMode::Sync,
        (false, true) => SyncMode::Invalidate,
        (false, false) => SyncMode::Async,
    };
    if len_bytes.checked_next_multiple_of(PAGE_SIZE as u64).is_none() {
        return Ok(());
    }
    Ok(space.sync(VirtAddr(addr), len_bytes, mode, hold)?)
}

/// `madvise(addr, len, MADV_REMOVE)`. Spaces are found by `hold`.
///
/// # Errors
/// As [`AddressSpace::remove`].
pub fn remove<'v, M: Machine, S>(
    space: &AddressSpace<'v, M>,
    addr: u64,
    len_bytes: u64,
    hold: impl Fn(SpaceId) -> Option<S>,
) -> Result<ObjectReach, Errno>
where
    S: Deref<Target = AddressSpace<'v, M>>,
{
    Ok(space.remove(VirtAddr(addr), len_bytes, hold)?)
}
