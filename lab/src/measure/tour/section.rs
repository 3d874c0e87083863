//! A section of the tour as a value.

use super::out::{Out, Shown};
use crate::error::Failure;
use crate::measure::Options;

/// One section of the tour.
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

impl Section {
    /// Runs the section.
    pub fn show(&self, options: &Options) -> Result<Shown, Failure> {
        let mut out = Out::new(options);
        (self.run)(&mut out)?;
        Ok(out.shown(self))
    }
}
