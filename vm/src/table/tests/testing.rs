//! PFN-mapped frames for the tests of floors without `unsafe`.

use crate::machine::CacheType;
use crate::table::PfnMapFrames;
use crate::units::{PfnRange, Rights};

/// Frames that are no space's memory.
///
/// # Panics
/// Where they may be a test machine's.
pub(crate) fn pfnmap_nowhere(frames: PfnRange, rights: Rights) -> PfnMapFrames {
    assert!(frames.start.0 >= 1 << 20, "frames of a test machine");
    // SAFETY: no test machine has such frames, and its MMU reads entries, but not what they map.
    unsafe { PfnMapFrames::new(frames, rights, CacheType::WriteBack) }
}
