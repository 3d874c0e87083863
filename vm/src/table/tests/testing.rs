//! Given frames for the tests of floors without `unsafe`.

use crate::machine::CacheType;
use crate::table::GivenFrames;
use crate::units::{PfnRange, Rights};

/// Frames that are no space's memory.
///
/// # Panics
/// Where they may be a test machine's.
pub(crate) fn given_nowhere(frames: PfnRange, rights: Rights) -> GivenFrames {
    assert!(frames.start.0 >= 1 << 20, "frames of a test machine");
    // SAFETY: no test machine has such frames, and its MMU reads entries, but not what they map.
    unsafe { GivenFrames::new(frames, rights, CacheType::WriteBack) }
}
