//! A run: which benchmarks, their figures, and the verdict, for people and for programs.

use super::{BENCHMARKS, Benchmark, CONTEXT, Figure, Options, Verdict};
use crate::error::Failure;
use crate::measure::garbage::PeakGarbage;
use crate::os::checkout::{FIGURES, PROFILE};
use crate::os::host_info::HostInfo;
use crate::show::{chart, table};
use serde::Serialize;

/// What a run of `interleaf bench` gives. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub setting: HostInfo,
    /// The Cargo profile of this program.
    pub profile: &'static str,
    /// The seed.
    pub seed: u64,
    /// Whether the sizes were small; then times are not judged.
    pub small: bool,
    /// Whether every benchmark was run, at full size.
    pub whole: bool,
    /// What the machine itself costs, in this run.
    pub context: Vec<Figure>,
    /// What was asked for.
    pub figures: Vec<Figure>,
    /// The peak garbage of each benchmark whose machines run the library.
    pub garbage: Vec<GroupGarbage>,
}

/// The profile, and whether its figures may be compared with others.
fn profile_line(profile: &str) -> String {
    if profile == FIGURES {
        return profile.to_string();
    }
    format!("{profile}: figures that are compared come from `--profile {FIGURES}`")
}

/// The peak garbage of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct GroupGarbage {
    /// The benchmark.
    pub group: &'static str,
    /// Of its machine that came nearest to its limit.
    #[serde(flatten)]
    pub peak: PeakGarbage,
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
            profile: PROFILE,
            seed: options.seed,
            small: options.small,
            whole: filter.is_none() && !options.small,
            context: Vec::new(),
            figures: Vec::new(),
            garbage: Vec::new(),
        };
        for benchmark in BENCHMARKS.iter().filter(|b| asked(b) || b.area() == CONTEXT) {
            progress(benchmark);
            let asked = |figure: &str| filter.is_none_or(|f| benchmark.wants(f, figure));
            let (figures, garbage) = measured(benchmark, options, asked)?;
            report.add(benchmark, filter, figures);
            report.garbage.extend(garbage.map(|peak| GroupGarbage { group: benchmark.name, peak }));
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

    /// The names of the figures with this verdict.
    pub fn with_verdict(&self, verdict: Verdict) -> Vec<&'static str> {
        self.all().filter(|f| f.verdict == Some(verdict)).map(|f| f.name).collect()
    }

    /// Fails if a bar is missed, if a count cannot tell, or if more than a tenth of the bars of a whole run
    /// cannot be told. Else what cannot be told is said, and no failure.
    ///
    /// # Errors
    /// The names of the figures that miss their bars, or cannot tell and must.
    pub fn check(&self) -> Result<(), Failure> {
        let missed = self.with_verdict(Verdict::No);
        let open = self.with_verdict(Verdict::CannotTell);
        if !missed.is_empty() {
            let (names, open) = (missed.join(", "), open.len());
            return fail(format!("{} of the bars missed: {names}; {open} cannot be told", missed.len()));
        }
        let is_open_count = |f: &&Figure| f.samples == 1 && f.verdict == Some(Verdict::CannotTell);
        let counts: Vec<_> = self.all().filter(is_open_count).map(|f| f.name).collect();
        if !counts.is_empty() {
            return fail(format!("counts that cannot be told, as no count may: {}", counts.join(", ")));
        }
        let judged = self.all().filter(|f| f.verdict.is_some()).count();
        if self.whole && open.len() * OPEN_MOST_OF > judged {
            let (most, names) = (judged / OPEN_MOST_OF, open.join(", "));
            return fail(format!(
                "{} of {judged} bars cannot be told, at most {most} may: {names}",
                open.len()
            ));
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Figure> {
        self.context.iter().chain(&self.figures)
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = format!("machine  {}, {}\n", self.setting.line(), self.setting.power_line());
        text += &format!("profile  {}\n", profile_line(self.profile));
        text += &format!("seed     {}\n\n", self.seed);
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
        text += &self.garbage_text();
        text + &self.verdict()
    }

    fn garbage_text(&self) -> String {
        if self.garbage.is_empty() {
            return String::new();
        }
        let header = ["group", "peak objects", "peak bytes", "limit", "longest grace period, us"];
        let row = |GroupGarbage { group, peak }: &GroupGarbage| {
            let counts = [peak.peak_objects, peak.peak_bytes, peak.limit_bytes];
            let mut row = vec![group.to_string()];
            row.extend(counts.map(|count| table::grouped(count as i64)));
            row.push(table::number(peak.longest_grace_ns as f64 / 1000.0));
            row
        };
        format!("garbage at its peak\n{}\n", table::of(&header, self.garbage.iter().map(row)))
    }

    fn verdict(&self) -> String {
        let count = |verdict| self.with_verdict(verdict).len();
        let [yes, open, no] = [Verdict::Yes, Verdict::CannotTell, Verdict::No].map(count);
        let size = if self.small { " (small size: times are not judged)" } else { "" };
        let named = match self.with_verdict(Verdict::CannotTell) {
            names if names.is_empty() => String::new(),
            names => format!(": {}", names.join(", ")),
        };
        format!(
            "{yes} of {} bars are met, {no} are not{size}\n{open} cannot be told{named}\n",
            yes + open + no
        )
    }
}

/// One of so many bars of a whole run may be one that cannot be told.
const OPEN_MOST_OF: usize = 10;

fn fail(line: String) -> Result<(), Failure> {
    Err(Failure::check(line))
}

/// How often a benchmark is measured again, each time with twice the pairs.
const AGAIN_MOST: u32 = 2;

/// Measures, and measures those figures again that are `asked` for and do not say *yes*: the host may have
/// taken a CPU away. Of each figure the last measurement counts, which had the most pairs; of the garbage,
/// the highest peak.
fn measured(
    benchmark: &Benchmark,
    options: &Options,
    asked: impl Fn(&str) -> bool,
) -> Result<(Vec<Figure>, Option<PeakGarbage>), Failure> {
    let only = benchmark.figures.iter().copied().filter(|name| asked(name)).collect();
    let (mut figures, mut garbage) = benchmark.measure(&Options { only: Some(only), ..options.clone() })?;
    for round in 1..=AGAIN_MOST {
        let is_open = |figure: &&Figure| figure.is_measured_again() && asked(figure.name);
        let open: Vec<&str> = figures.iter().filter(is_open).map(|figure| figure.name).collect();
        if open.is_empty() {
            break;
        }
        let more = Options { pairs: options.pairs << round, only: Some(open.clone()), ..options.clone() };
        let (again, garbage_again) = benchmark.measure(&more)?;
        garbage = garbage.zip(garbage_again).map(|(one, other)| one.or(other));
        for figure in again.into_iter().filter(|figure| open.contains(&figure.name)) {
            figures
                .iter_mut()
                .filter(|known| known.name == figure.name)
                .for_each(|known| *known = figure.clone());
        }
    }
    Ok((figures, garbage))
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
        figure.verdict.map(|verdict| verdict.to_string()).unwrap_or_default(),
    ]
}

#[cfg(test)]
#[path = "tests/report.rs"]
mod tests;
