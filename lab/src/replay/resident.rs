//! Resident memory of a life: ours, counted from the tables before each call that may free some, and
//! Linux's at the end. Of anonymous memory alone: what stands in for files has pages of its own here, and
//! none in Linux.

use super::player::Player;
use super::setup::is_anonymous;
use super::step::STAND_IN;
use crate::trace::Image;
use interleaf::units::VpnRange;
use serde::Serialize;

/// Resident anonymous memory of a life, KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResidentLife {
    /// The most that was counted: exact, as memory grows but by calls.
    pub peak_kib: u64,
    /// At the end.
    pub end_kib: u64,
    /// Linux's at the end, where the trace has the last map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux_end_kib: Option<u64>,
}

impl ResidentLife {
    /// Counts what the space has now.
    pub fn count(&mut self, player: &Player<'_, '_>) {
        let (mut ranges, mut pages) = (Vec::<VpnRange>::new(), 0);
        player.space.each_vma(|vma| {
            let counts = vma.is_private_anonymous() && !vma.flags.contains(STAND_IN);
            match ranges.last_mut() {
                // A huge page may lie in two mappings.
                Some(last) if counts && last.end == vma.range.start => last.end = vma.range.end,
                _ if counts => ranges.push(vma.range),
                _ => {}
            }
        });
        for range in ranges {
            pages += player.space.resident_in(range).pages();
        }
        self.end_kib = pages * 4;
        self.peak_kib = self.peak_kib.max(self.end_kib);
    }

    /// Notes Linux's last map.
    pub fn note_linux(&mut self, image: &Image) {
        let kib = image.mappings.iter().filter(|m| is_anonymous(m)).map(|m| m.rss_kib).sum();
        self.linux_end_kib = Some(kib);
    }
}
