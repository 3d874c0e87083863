//! The tour: every experiment, small, one section each.
//!
//! A section states a claim, shows the figure that bears it out or not, with its yardstick, and names the
//! command that runs the experiment alone. It needs no privilege, no QEMU and no file but those in the
//! repository, and takes a few seconds at most: all sections together stay under a minute.
//!
//! To add one: a file with one `pub const SECTION: Section`, and its name in [`SECTIONS`].

mod init;
mod locks;
mod no_lock;
mod ordering;
mod out;
mod own_costs;
mod replay;
mod section;
mod yardsticks;
mod zeroing;

pub use out::{Out, Shown};
pub use section::Section;

/// Every section, in the order in which they are shown.
pub const SECTIONS: &[Section] = &[
    zeroing::SECTION,
    locks::SECTION,
    ordering::SECTION,
    yardsticks::SECTION,
    own_costs::SECTION,
    no_lock::SECTION,
    init::SECTION,
    replay::SECTION,
];

/// What to try after the tour.
pub const NEXT: &[(&str, &str)] = &[
    ("interleaf list", "everything there is to run"),
    ("interleaf bench", "every figure, with intervals and bars"),
    ("interleaf doctor", "what this machine lacks, and how to get it"),
];

#[cfg(test)]
mod tests;
