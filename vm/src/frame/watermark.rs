//! How much of a zone is kept back, and for whom.

/// Free frames below which things change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Only [`Priority::Reserve`] goes below.
    pub min: u64,
    /// [`Priority::NoWait`] does not go below; a reclaimer would start.
    pub low: u64,
    /// A reclaimer would stop.
    pub high: u64,
}

/// Who asks for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Whoever can do without: takes what is at hand, neither waits nor disturbs other CPUs. For read
    /// sections.
    NoWait,
    /// A request that may fail.
    Normal,
    /// Who frees memory by using some: may take the last frame.
    Reserve,
}

impl Watermark {
    /// The marks of a zone of `frames` frames: the square root of 16 times its KiB, in KiB, between 128 KiB
    /// and 256 MiB as Linux has it, but never more than 1/64 of the zone.
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
mod tests {
    use super::*;

    #[test]
    fn marks_grow_with_the_root_of_the_zone() {
        assert_eq!(Watermark::for_frames(64).min, 1);
        assert_eq!(Watermark::for_frames(1 << 18).min, 1024);
        assert_eq!(Watermark::for_frames(1 << 40).min, 64 << 10);
        let mark = Watermark::for_frames(1 << 18);
        assert!(mark.min < mark.low && mark.low < mark.high);
    }

    #[test]
    fn only_the_reserve_goes_below_min() {
        let mark = Watermark { min: 10, low: 12, high: 15 };
        let allowed = |priority| mark.allows(11, priority);
        let all = [Priority::NoWait, Priority::Normal, Priority::Reserve].map(allowed);
        assert_eq!(all, [0, 1, 11]);
    }
}
