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
mod yardsticks;
mod zeroing;

pub use out::{Out, Shown};

use crate::error::Failure;
use crate::measure::bench::Options;

/// One stop of the tour.
pub struct Section {
    /// A few words.
    pub title: &'static str,
    /// What the figure is to show, as one sentence.
    pub claim: &'static str,
    /// Runs the experiment and shows what came of it.
    pub run: fn(&mut Out) -> Result<(), Failure>,
    /// How to run the experiment alone, and longer.
    pub command: &'static str,
}

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

impl Section {
    /// Runs the section.
    pub fn show(&self, options: &Options) -> Result<Shown, Failure> {
        let mut out = Out::new(options);
        (self.run)(&mut out)?;
        Ok(out.shown(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_shows_a_figure_or_text() {
        for section in SECTIONS {
            let shown = section.show(&Options::small()).unwrap_or_else(|e| panic!("{}: {e}", section.title));
            assert!(!shown.figures.is_empty() || !shown.text.is_empty(), "{} shows nothing", section.title);
        }
    }
}
