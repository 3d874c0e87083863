//! How much garbage a CPU may hold.

#![forbid(unsafe_code)]

/// How many bytes of retired objects wait on one CPU.
///
/// After each `lot` bytes a CPU polls. What it retired before a poll was stamped with the epoch that this
/// poll looked at, or an earlier one. From each poll to the next the epoch moves by one at least, by another
/// CPU or by this one, where no reader and no advance under way hinders it: so the objects have expired at
/// the third poll after it, and four lots wait at most. `most` is eight, to leave readers time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GarbageLimits {
    pub(super) lot: usize,
    pub(super) most: usize,
}

/// Lots in the most that a CPU holds.
const LOTS: usize = 8;

impl GarbageLimits {
    /// The limits of a small memory: lots of 32 KiB.
    pub const SMALL: Self = Self::of_most(256 << 10);
    /// The limits of a large memory: lots of 128 KiB.
    pub const LARGE: Self = Self::of_most(1 << 20);

    /// The limits for `nr_cpus` CPUs with `bytes` of memory: the garbage of all is a 64th part of it at most,
    /// but each may have as much as in [`SMALL`](Self::SMALL), and none more than in [`LARGE`](Self::LARGE),
    /// beyond which lots make nothing faster: four of them, and what is in use beside them, leave a CPU's
    /// second-level cache.
    pub const fn for_memory(bytes: u64, nr_cpus: u32) -> Self {
        let share = bytes / 64 / if nr_cpus == 0 { 1 } else { nr_cpus as u64 };
        if share <= Self::SMALL.most as u64 {
            Self::SMALL
        } else if share >= Self::LARGE.most as u64 {
            Self::LARGE
        } else {
            Self::of_most(share as usize)
        }
    }

    /// Bytes of the objects that a CPU retires between two polls.
    pub const fn lot_bytes(&self) -> usize {
        self.lot
    }

    /// Bytes of waiting objects at which a CPU that retires waits for the readers. What it retires in one
    /// call comes on top.
    pub const fn most_bytes(&self) -> usize {
        self.most
    }

    const fn of_most(most: usize) -> Self {
        Self { lot: most / LOTS, most }
    }
}
