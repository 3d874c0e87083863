//! The words of `prctl` that concern memory.

use crate::Errno;
use interleaf::machine::Machine;
use interleaf::space::AddressSpace;
use interleaf::vma::ThpDisable;
use linux_raw_sys::prctl as raw;

/// `PR_THP_DISABLE_EXCEPT_ADVISED`, of Linux 6.18: huge pages stay allowed where they are advised.
const EXCEPT_ADVISED: u64 = 1 << 1;

/// `prctl(option, words...)` of a process whose memory is `space`: PR_SET_THP_DISABLE and
/// PR_GET_THP_DISABLE. Returns the call's value.
///
/// # Errors
/// [`Errno::EINVAL`] for other options, for unknown flags or flags that disable nothing, and for words that
/// should be 0.
pub fn prctl<M: Machine>(space: &AddressSpace<'_, M>, option: u32, words: [u64; 4]) -> Result<u64, Errno> {
    if let Some(disable) = thp_disable(option, words) {
        space.set_thp_disable(disable?);
        return Ok(0);
    }
    match (option, words) {
        (raw::PR_GET_THP_DISABLE, [0, 0, 0, 0]) => Ok(match space.thp_disable() {
            ThpDisable::None => 0,
            ThpDisable::ExceptAdvised => 1 | EXCEPT_ADVISED,
            ThpDisable::Completely => 1,
        }),
        _ => Err(Errno::EINVAL),
    }
}

/// What `prctl(option, words...)` disables; `None` where it is not PR_SET_THP_DISABLE.
///
/// # Errors
/// [`Errno::EINVAL`] for unknown flags or flags that disable nothing, and for words that should be 0.
pub fn thp_disable(option: u32, words: [u64; 4]) -> Option<Result<ThpDisable, Errno>> {
    match (option, words) {
        (raw::PR_SET_THP_DISABLE, [disable, flags, 0, 0]) => Some(of_flags(disable != 0, flags)),
        (raw::PR_SET_THP_DISABLE, _) => Some(Err(Errno::EINVAL)),
        _ => None,
    }
}

fn of_flags(disable: bool, flags: u64) -> Result<ThpDisable, Errno> {
    match (disable, flags) {
        (false, 0) => Ok(ThpDisable::None),
        (true, 0) => Ok(ThpDisable::Completely),
        (true, EXCEPT_ADVISED) => Ok(ThpDisable::ExceptAdvised),
        _ => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
#[path = "tests/prctl.rs"]
mod tests;
