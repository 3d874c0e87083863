//! How predictions reach people and programs.

use crate::conclusion::{self, BOTTLENECK, Bottleneck};
use crate::line_limit::LineLimit;
use crate::point::{Point, Ranged};
use crate::waits::NamedWait;
use interleaf_lab::show::chart::{self, Series};
use interleaf_lab::show::table::{self, grouped, number};
use serde::Serialize;

/// Everything that was predicted. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The workload or the trace.
    pub workload: String,
    /// What its CPUs do.
    pub about: String,
    /// What is counted, in the plural.
    pub operations: &'static str,
    /// What the profile is of.
    pub profile: String,
    /// The profile's numbers that are guesses.
    pub guesses: Vec<&'static str>,
    /// `filled` or `spread`.
    pub placement: &'static str,
    /// The seed.
    pub seed: u64,
    /// One for each path and number of CPUs.
    pub points: Vec<Point>,
    /// What the line allows that all CPUs write, where that is what the workload is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_limit: Option<LineLimit>,
    /// The first bottleneck of each point that has one.
    pub bottlenecks: Vec<Bottleneck>,
}

/// Rows of waits that text shows for a path.
const WAITS_SHOWN: usize = 8;

impl Report {
    /// The conclusion, the curves, the waits on the most CPUs, the first bottleneck.
    pub fn text(&self) -> String {
        let mut text = conclusion::paragraph(&self.workload, self.operations, &self.points);
        text += &format!(
            "\n\nworkload   {}\nprofile    {}\n           guesses: {}\nplacement  {}, seed {}\n\n{}",
            self.about,
            self.profile,
            self.guesses.join(", "),
            self.placement,
            self.seed,
            self.curves()
        );
        let most = self.points.iter().map(|point| point.cpus).max().unwrap_or(0);
        for point in self.points.iter().filter(|point| point.cpus == most) {
            text += &waits(point);
        }
        text += "\n";
        text += &self.line_limit.map_or(String::new(), |limit| limit.text(self.operations));
        text + &conclusion::bottlenecks(self.operations, &self.points, &self.bottlenecks)
    }

    /// A table for each path: rates in thousands, times of operations.
    fn curves(&self) -> String {
        let mut text = format!("rates are thousands of {} per second\n", self.operations);
        let has_calls = self.points.iter().any(|point| point.calls_ms.value > 0.0);
        let header =
            ["CPUs", "of a CPU", "halved, doubled", "in all", "p50 ns", "p99 ns", "p99.9 ns", "waiting"];
        let header: Vec<_> =
            header.into_iter().chain(["faults ms", "calls ms"].into_iter().filter(|_| has_calls)).collect();
        for path in conclusion::paths(&self.points) {
            let points = self.points.iter().filter(|point| point.path == path);
            text += &format!("\n{path}\n{}", table::of(&header, points.map(|point| row(point, has_calls))));
        }
        text
    }

    /// The rates of a CPU as a chart, a line for each path.
    pub fn svg(&self) -> String {
        let mut series: Vec<Series> = Vec::new();
        for point in &self.points {
            let at = (f64::from(point.cpus), point.rate_per_cpu.value);
            match series.last_mut().filter(|series| series.name == point.path) {
                Some(series) => series.points.push(at),
                None => series.push(Series { name: point.path.into(), points: vec![at] }),
            }
        }
        let title = format!("{}, predicted: {}", self.workload, self.profile);
        chart::svg(&title, "CPUs", &format!("{}/s per CPU", self.operations), &series)
    }
}

/// A point's row: its rates, its times, and where there are calls, the time in both.
fn row(point: &Point, has_calls: bool) -> Vec<String> {
    let thousands = |rate: f64| number(rate / 1000.0);
    let Ranged { value, low, high } = point.rate_per_cpu;
    let both = [point.faults_ms, point.calls_ms].map(|ms| number(ms.value));
    let row = [
        point.cpus.to_string(),
        thousands(value),
        format!("{} .. {}", thousands(low), thousands(high)),
        thousands(point.rate.value),
        number(point.p50_ns.value),
        number(point.p99_ns.value),
        number(point.p999_ns.value),
        percent(point.share_waiting()),
    ];
    row.into_iter().chain(both.into_iter().filter(|_| has_calls)).collect()
}

/// What the CPUs of a point waited for.
fn waits(point: &Point) -> String {
    let title = format!("\n{}, {}: what CPUs waited for\n", point.path, conclusion::cpus(point.cpus));
    let worth = point.waits.iter().filter(|wait| wait.share >= BOTTLENECK / 20.0).take(WAITS_SHOWN);
    let row = |wait: &NamedWait| {
        vec![
            percent(wait.share),
            wait.mostly().into(),
            grouped(wait.lines as i64),
            wait.field.clone(),
            wait.site.clone(),
        ]
    };
    let rows: Vec<_> = worth.map(row).collect();
    if rows.is_empty() {
        return format!("{title}  nothing for more than 0.1 % of the time\n");
    }
    title + &table::of(&["time", "mostly", "lines", "field", "site"], rows)
}

fn percent(share: f64) -> String {
    if share == 0.0 { String::new() } else { format!("{:.1} %", share * 100.0) }
}
