//! The words of `prctl` that concern memory.

use crate::Errno;
use interleaf::machine::Machine;
use interleaf::space::AddressSpace;
use interleaf::vma::HugeRefusal;
use linux_raw_sys::prctl as raw;

/// `PR_THP_DISABLE_EXCEPT_ADVISED`, of Linux 6.18: huge pages stay allowed where they are advised.
const EXCEPT_ADVISED: u64 = 1 << 1;

/// `prctl(option, words...)` of a process whose memory is `space`: PR_SET_THP_DISABLE and
/// PR_GET_THP_DISABLE. Returns the call's value.
///
/// # Errors
/// [`Errno::EINVAL`] for other options, for unknown flags or flags without a refusal, and for words that
/// should be 0.
pub fn prctl<M: Machine>(space: &AddressSpace<'_, M>, option: u32, words: [u64; 4]) -> Result<u64, Errno> {
    if let Some(refusal) = thp_refusal(option, words) {
        space.refuse_huge_pages(refusal?);
        return Ok(0);
    }
    match (option, words) {
        (raw::PR_GET_THP_DISABLE, [0, 0, 0, 0]) => Ok(match space.huge_refusal() {
            HugeRefusal::None => 0,
            HugeRefusal::ExceptAdvised => 1 | EXCEPT_ADVISED,
            HugeRefusal::All => 1,
        }),
        _ => Err(Errno::EINVAL),
    }
}

/// What `prctl(option, words...)` refuses; `None` where it is not PR_SET_THP_DISABLE.
///
/// # Errors
/// [`Errno::EINVAL`] for unknown flags or flags without a refusal, and for words that should be 0.
pub fn thp_refusal(option: u32, words: [u64; 4]) -> Option<Result<HugeRefusal, Errno>> {
    match (option, words) {
        (raw::PR_SET_THP_DISABLE, [refuses, flags, 0, 0]) => Some(refusal(refuses != 0, flags)),
        (raw::PR_SET_THP_DISABLE, _) => Some(Err(Errno::EINVAL)),
        _ => None,
    }
}

fn refusal(refuses: bool, flags: u64) -> Result<HugeRefusal, Errno> {
    match (refuses, flags) {
        (false, 0) => Ok(HugeRefusal::None),
        (true, 0) => Ok(HugeRefusal::All),
        (true, EXCEPT_ADVISED) => Ok(HugeRefusal::ExceptAdvised),
        _ => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
#[path = "tests/prctl.rs"]
mod tests;
