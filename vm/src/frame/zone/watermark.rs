//! Watermarks: how much of a zone is kept back, and for which requests.

use crate::frame::Priority;

/// Numbers of free frames at which allocation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Only [`Priority::Reserve`] may go below.
    pub min: u64,
    /// [`Priority::NoWait`] may not go below; a reclaimer would start.
    pub low: u64,
    /// A reclaimer would stop.
    pub high: u64,
}

impl Watermark {
    /// The watermarks of a zone of `frames` frames: the square root of 16 times its KiB, in KiB, between 128
    /// KiB and 256 MiB as Linux has it, but never more than 1/64 of the zone.
    pub fn for_frames(frames: u64) -> Self {
        let kib = (frames * 4 * 16).isqrt().clamp(128, 256 << 10);
        let min = (kib / 4).min(frames / 64);
        Self { min, low: min + min / 4, high: min + min / 2 }
    }

    /// How many of `free` frames `priority` may take.
    pub fn allows(self, free: u64, priority: Priority) -> u64 {
        let kept = match priority {
            Priority::NoWait => self.low,
            Priority::Normal => self.min,
            Priority::Reserve => 0,
        };
        free.saturating_sub(kept)
    }
}

#[cfg(test)]
#[path = "../tests/watermark.rs"]
mod tests;
