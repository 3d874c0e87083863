//! What a section shows: figures, bars, lines; kept for JSON, and laid out as text.

use super::Section;
use crate::error::Failure;
use crate::measure::bench::report::figures_table;
use crate::measure::bench::{BENCHMARKS, Figure, Options};
use crate::show::bars;
use serde::Serialize;

/// Where a section puts what it shows.
pub struct Out {
    options: Options,
    figures: Vec<Figure>,
    text: String,
}

/// What a section has shown. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// A few words.
    pub title: &'static str,
    /// What the figures are to show.
    pub claim: &'static str,
    /// The figures.
    pub figures: Vec<Figure>,
    /// What else there is to see.
    pub text: String,
    /// How to run it alone.
    pub command: &'static str,
}

impl Out {
    /// Nothing shown yet.
    pub fn new(options: &Options) -> Out {
        Out { options: options.clone(), figures: Vec::new(), text: String::new() }
    }

    /// The sizes to run at.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Shows a figure.
    pub fn figure(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Runs the benchmark that has the figures of these names, and shows them.
    pub fn bench(&mut self, names: &[&str]) -> Result<(), Failure> {
        for benchmark in BENCHMARKS.iter().filter(|b| names.iter().any(|n| b.figures.contains(n))) {
            let figures = (benchmark.run)(&self.options)?;
            self.figures.extend(figures.into_iter().filter(|f| names.contains(&f.name)));
        }
        Ok(())
    }

    /// The figure of this name, if it has been shown.
    pub fn shown_figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.name == name)
    }

    /// Shows a line of text, or several.
    pub fn line(&mut self, text: impl AsRef<str>) {
        for line in text.as_ref().lines() {
            self.text += &format!("{line}\n");
        }
    }

    /// Shows numbers side by side.
    pub fn bars(&mut self, entries: &[(String, f64)], unit: &str) {
        self.line(bars::of(entries, unit, 40));
    }

    /// Ends the section.
    pub(super) fn shown(self, section: &Section) -> Shown {
        let Section { title, claim, command, .. } = section;
        Shown { title, claim, command, figures: self.figures, text: self.text }
    }
}

impl Shown {
    /// The section as text, `number` of `count`.
    pub fn text(&self, number: usize, count: usize) -> String {
        let mut text = format!("{number}/{count}  {}\n  {}\n\n", self.title, self.claim);
        if !self.figures.is_empty() {
            text += &format!("{}\n", figures_table(&self.figures));
        }
        if !self.text.is_empty() {
            let lines = self.text.lines().map(|l| format!("  {l}").trim_end().to_string() + "\n");
            text += &format!("{}\n", lines.collect::<String>());
        }
        text + &format!("  alone: {}\n", self.command)
    }
}
