//! How long does it take to unmap a large guest, and which CPUs does that interrupt?
//!
//! A space maps the guest's memory by huge leaves of frames behind which there is no memory: what is measured
//! are entries, tables and flushes. Each [`Way`] is a row. While the first CPU unmaps, the second walks the
//! tables without a lock, as a hypervisor's fault handler or a profiler does, and in one row faults pages in,
//! elsewhere in the same space. What the seed of this experiment saw on 128 CPUs was one interrupt of all
//! CPUs for each huge entry, to wait for such walkers: 82 150 ms for 496 GB, 39 ms without, and 369 ms with
//! one flush (the cover letter of "Avoid IPI while updating page table entries", version 3).

mod report;
mod run;

pub use report::{Report, Row};
pub use run::{Measured, Unmapping};

/// How the entries are cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A loop that clears as many words, and nothing else: the floor.
    Words,
    /// The same loop, and after each word all CPUs are interrupted (membarrier), as before the series.
    InterruptForEach,
    /// munmap of a space that no CPU runs: no flush.
    RunNowhere,
    /// munmap by the one CPU that runs the space: it flushes itself.
    RunHere,
    /// munmap while another CPU runs the space too, and faults in another mapping.
    RunTwice,
    /// munmap by the one CPU that runs the space, with a helper on the other: no walker beside.
    ByJob,
}

impl Way {
    /// All of them, as they are shown.
    pub const ALL: [Way; 6] =
        [Way::Words, Way::InterruptForEach, Way::RunNowhere, Way::RunHere, Way::RunTwice, Way::ByJob];

    /// What the row is called.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Words => "a loop over as many words",
            Way::InterruptForEach => "the loop, an interrupt for each",
            Way::RunNowhere => "munmap, run by no CPU",
            Way::RunHere => "munmap, run by this CPU",
            Way::RunTwice => "munmap, run by two CPUs",
            Way::ByJob => "munmap by two CPUs",
        }
    }
}
