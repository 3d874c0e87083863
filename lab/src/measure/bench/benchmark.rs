//! A benchmark as a value: its name, its question, its figures, and what answers it.

use super::figure::Figure;
use crate::error::Failure;
use crate::measure::garbage::{PeakGarbage, noted_in};
use crate::measure::options::Options;

/// One question and how to answer it.
pub struct Benchmark {
    /// `area.topic`, or just `area` where it has one topic.
    pub name: &'static str,
    /// What is asked, as a sentence.
    pub question: &'static str,
    /// The names of its figures, `area.figure`, in the order in which they are returned.
    pub figures: &'static [&'static str],
    /// Answers it.
    pub run: fn(&Options) -> Result<Vec<Figure>, Failure>,
}

impl Benchmark {
    /// Answers the question, and says how much garbage its machines had at most, where they run the library.
    ///
    /// # Errors
    /// Those of the benchmark; that garbage exceeded its limit; figures that are not those it names.
    pub fn measure(&self, options: &Options) -> Result<(Vec<Figure>, Option<PeakGarbage>), Failure> {
        let (figures, garbage) = noted_in(|| (self.run)(options));
        garbage.map_or(Ok(()), |garbage| garbage.check(self.name))?;
        let figures = figures?;
        self.refuse_strangers(options, &figures)?;
        Ok((figures, garbage))
    }

    /// The figures are those that are named, in that order; on one CPU some may be missing.
    fn refuse_strangers(&self, options: &Options, figures: &[Figure]) -> Result<(), Failure> {
        let measured: Vec<_> = figures.iter().map(|figure| figure.name).collect();
        let mut named = self.figures.to_vec();
        if options.cpus.len() < 2 {
            named.retain(|name| measured.contains(name));
        }
        let is_sound = |figure: &Figure| figure.value.is_finite() && figure.low <= figure.high;
        match figures.iter().find(|figure| !is_sound(figure)) {
            Some(figure) => Err(Failure::check(format!("{}: no figure: {figure:?}", self.name))),
            None if measured != named => {
                Err(Failure::check(format!("{}: figures {measured:?}, where {named:?} are named", self.name)))
            }
            None => Ok(()),
        }
    }

    /// Whether `filter` names this benchmark, its area or one of its figures.
    pub fn is_named_by(&self, filter: &str) -> bool {
        self.name == filter || self.area() == filter || self.figures.contains(&filter)
    }

    /// Whether of this benchmark's figures `figure` is asked for by `filter`.
    pub fn wants(&self, filter: &str, figure: &str) -> bool {
        self.name == filter || self.area() == filter || filter == figure
    }

    /// The part of the name before the dot.
    pub fn area(&self) -> &'static str {
        self.name.split('.').next().unwrap_or(self.name)
    }
}
