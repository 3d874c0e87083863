//! Frames behind which there is no memory, for tables of more memory than the host has.

use super::{Flavour, SoftMachine};
use interleaf::machine::{CacheType, Format};
use interleaf::table::PfnMapFrames;
use interleaf::units::{Pfn, PfnRange, Rights};

impl<C: Flavour, F: Format> SoftMachine<C, F> {
    /// `frames` frames above the machine's memory, the first a multiple of the largest page. An access to one
    /// panics. `None` where there are not so many.
    pub fn frames_of_no_memory(&self, frames: u64) -> Option<PfnMapFrames> {
        const GIANT: u64 = 1 << 18;
        let end = self.arena().regions().iter().map(|range| range.end.0).max()?;
        let first = end.checked_next_multiple_of(GIANT)?;
        let frames = PfnRange { start: Pfn(first), end: Pfn(first.checked_add(frames)?) };
        let rights = Rights::READ | Rights::WRITE | Rights::USER;
        // SAFETY: (1) and (2): user code reaches a frame through the window only (`Machine::window`), which
        // panics outside of the machine's memory. (3) They lie above it.
        Some(unsafe { PfnMapFrames::new(frames, rights, CacheType::WriteBack) })
    }
}
