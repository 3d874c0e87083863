//! A section of the tour as a value.

use super::out::{Out, Shown};
use crate::error::Failure;
use crate::measure::{Options, garbage};

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
    /// Runs the section, and holds the garbage of its machines against what may wait.
    pub fn show(&self, options: &Options) -> Result<Shown, Failure> {
        let mut out = Out::new(options);
        let (run, peak) = garbage::noted_in(|| (self.run)(&mut out));
        run?;
        peak.iter().for_each(|peak| out.garbage(peak));
        Ok(out.shown(self))
    }
}
