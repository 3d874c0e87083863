//! What a section shows: figures, bars, lines; kept for JSON, and laid out as text.

use super::Section;
use crate::error::Failure;
use crate::measure::bench::report::figures_table;
use crate::measure::bench::{BENCHMARKS, Figure, Options, Verdict};
use crate::measure::garbage::PeakGarbage;
use crate::show::bars;
use serde::Serialize;

/// Where a section puts what it shows.
pub struct Out {
    options: Options,
    figures: Vec<Figure>,
    /// What else the claim hangs on, by name.
    judged: Vec<(String, Verdict)>,
    text: String,
}

/// What a section has shown. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// A few words.
    pub title: &'static str,
    /// What the figures are to show.
    pub claim: &'static str,
    /// Whether they do: the worst verdict of all that the claim hangs on. Absent where nothing was judged.
    pub verdict: Option<Verdict>,
    /// What has that verdict, if it is not yes.
    pub because: Vec<String>,
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
        Out { options: options.clone(), figures: Vec::new(), judged: Vec::new(), text: String::new() }
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

    /// Says whether something that the claim hangs on holds; `None` where it was not judged.
    pub fn judge(&mut self, what: impl Into<String>, verdict: Option<Verdict>) {
        self.judged.extend(verdict.map(|verdict| (what.into(), verdict)));
    }

    /// Shows how much garbage waited for readers at the peak. The claim fails where it was more than may.
    pub fn garbage(&mut self, peak: &PeakGarbage) {
        let PeakGarbage { peak_objects, peak_bytes, limit_bytes, .. } = peak;
        self.line(format!(
            "garbage at its peak: {peak_objects} objects, {peak_bytes} bytes; {limit_bytes} may wait"
        ));
        if peak.peak_bytes > peak.limit_bytes {
            self.judge("garbage that waited for readers", Some(Verdict::No));
        }
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
    pub(super) fn shown(mut self, section: &Section) -> Shown {
        let Section { title, claim, command, .. } = section;
        let of_figures = self.figures.iter().filter_map(|f| Some((f.name.to_string(), f.verdict?)));
        self.judged.extend(of_figures);
        let verdict = self.judged.iter().map(|(_, verdict)| *verdict).max();
        let worst = self.judged.into_iter().filter(|(_, it)| Some(*it) == verdict && *it != Verdict::Yes);
        let because = worst.map(|(what, _)| what).collect();
        Shown { title, claim, verdict, because, command, figures: self.figures, text: self.text }
    }
}

impl Shown {
    /// The section as text, `number` of `count`.
    pub fn text(&self, number: usize, count: usize) -> String {
        let mut text =
            format!("{number}/{count}  {}\n  {}\n{}\n", self.title, self.claim, self.verdict_text());
        if !self.figures.is_empty() {
            text += &format!("{}\n", figures_table(&self.figures));
        }
        if !self.text.is_empty() {
            let lines = self.text.lines().map(|l| format!("  {l}").trim_end().to_string() + "\n");
            text += &format!("{}\n", lines.collect::<String>());
        }
        text + &format!("  alone: {}\n", self.command)
    }

    /// One line that says whether the claim holds here.
    fn verdict_text(&self) -> String {
        let names = self.because.join(", ");
        match self.verdict {
            None => String::new(),
            Some(Verdict::Yes) => "  here: so it is\n".to_string(),
            Some(Verdict::CannotTell) => format!("  here: this run cannot tell: {names}\n"),
            Some(Verdict::No) => format!("  here: NOT so: {names}\n"),
        }
    }
}
