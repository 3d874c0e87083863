//! A run: which benchmarks, their figures, and the verdict, for people and for programs.

use super::{BENCHMARKS, Benchmark, CONTEXT, Figure, Options};
use crate::error::Failure;
use crate::os::host_info::HostInfo;
use crate::show::{chart, table};
use serde::Serialize;

/// What a run of `interleaf bench` gives. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub setting: HostInfo,
    /// The seed.
    pub seed: u64,
    /// Whether the sizes were small; then times are not judged.
    pub small: bool,
    /// What the machine itself costs, in this run.
    pub context: Vec<Figure>,
    /// What was asked for.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Runs what `filter` names, or everything, telling `progress` the name of each benchmark before it runs.
    pub fn run(
        options: &Options,
        filter: Option<&str>,
        mut progress: impl FnMut(&Benchmark),
    ) -> Result<Report, Failure> {
        let asked = |b: &&Benchmark| filter.is_none_or(|f| b.is_named_by(f));
        if !BENCHMARKS.iter().any(|b| asked(&b)) {
            let name = filter.unwrap_or_default();
            return Err(Failure::usage(format!(
                "no benchmark is called {name}; `interleaf list` names them"
            )));
        }
        let mut report = Report {
            setting: HostInfo::of_this_machine(),
            seed: options.seed,
            small: options.small,
            context: Vec::new(),
            figures: Vec::new(),
        };
        for benchmark in BENCHMARKS.iter().filter(|b| asked(b) || b.area() == CONTEXT) {
            progress(benchmark);
            report.add(benchmark, filter, (benchmark.run)(options)?);
        }
        Ok(report)
    }

    fn add(&mut self, benchmark: &Benchmark, filter: Option<&str>, figures: Vec<Figure>) {
        for figure in figures {
            let asked = filter.is_some_and(|f| benchmark.wants(f, figure.name));
            if asked || (filter.is_none() && benchmark.area() != CONTEXT) {
                self.figures.push(figure);
            } else if benchmark.area() == CONTEXT {
                self.context.push(figure);
            }
        }
    }

    /// The names of the figures whose bar does not hold.
    pub fn missed(&self) -> Vec<&'static str> {
        let figures = self.context.iter().chain(&self.figures);
        figures.filter(|f| f.holds == Some(false)).map(|f| f.name).collect()
    }

    /// Fails if a bar does not hold.
    pub fn check(&self) -> Result<(), Failure> {
        let missed = self.missed();
        if missed.is_empty() {
            return Ok(());
        }
        Err(Failure::check(format!("{} of the bars missed: {}", missed.len(), missed.join(", "))))
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = format!("machine  {}\nseed     {}\n\n", self.setting.line(), self.seed);
        if !self.context.is_empty() {
            text += &format!("what this machine costs, in this run\n{}\n", figures_table(&self.context));
        }
        if !self.figures.is_empty() {
            text += &format!("figures\n{}\n", figures_table(&self.figures));
        }
        for figure in &self.figures {
            text += &curve_text(figure);
            text += &parts_text(figure);
        }
        text + &self.verdict()
    }

    fn verdict(&self) -> String {
        let judged = self.context.iter().chain(&self.figures).filter(|f| f.holds.is_some()).count();
        let missed = self.missed().len();
        let size = if self.small { " (small size: times are not judged)" } else { "" };
        format!("{} of {judged} bars hold{size}\n", judged - missed)
    }
}

fn curve_text(figure: &Figure) -> String {
    let Some(curve) = &figure.curve else { return String::new() };
    let title = format!("{}: {} by {}", figure.name, figure.unit, curve.x);
    format!("{}\n", chart::ascii(&title, &curve.points))
}

fn parts_text(figure: &Figure) -> String {
    if figure.parts.is_empty() {
        return String::new();
    }
    let row = |(name, value): &(String, f64)| vec![table::number(*value), name.clone()];
    let rows = table::of(&[figure.unit, "of"], figure.parts.iter().map(row));
    format!("{}\n{rows}\n", figure.name)
}

/// Figures as a table: the number, what it is held against, the interval, what the run can resolve, the bar.
/// Columns in which nothing stands are left out.
pub fn figures_table(figures: &[Figure]) -> String {
    let header = ["figure", "value", "unit", "yardstick", "ratio", "95 % interval", "A/A", "bar", "holds"];
    table::of_used_columns(&header, figures.iter().map(row).collect())
}

fn row(figure: &Figure) -> Vec<String> {
    let yardstick = match (figure.yardstick, figure.yardstick_value) {
        (Some(name), Some(value)) => format!("{} {name}", table::number(value)),
        _ => String::new(),
    };
    let interval = match figure.samples {
        1 => "exact".to_string(),
        _ => format!("{} .. {}", table::number(figure.low), table::number(figure.high)),
    };
    let aa = figure.aa.zip(figure.aa_spread).map(|(aa, spread)| format!("{aa:.3} ± {spread:.3}"));
    vec![
        figure.name.to_string(),
        table::number(figure.value),
        figure.unit.to_string(),
        yardstick,
        figure.ratio.map(table::number).unwrap_or_default(),
        interval,
        aa.unwrap_or_default(),
        figure.bar.map(|b| b.to_string()).unwrap_or_default(),
        figure.holds.map(|h| if h { "yes" } else { "NO" }.to_string()).unwrap_or_default(),
    ]
}
