//! What a prediction comes to, in words: how the paths compare, the first bottleneck, and what removing it
//! would give.

use crate::point::Point;
use interleaf_lab::show::table::number;
use serde::Serialize;
use std::collections::BTreeMap;

/// Waits below this share of all CPUs' time are no bottleneck.
pub const BOTTLENECK: f64 = 0.02;

/// What lies on the lines that the CPUs of a path waited for most. The field names are the JSON's and stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The path.
    pub path: &'static str,
    /// CPUs.
    pub cpus: u32,
    /// What lies on the lines.
    pub field: String,
    /// The place in the source with the longest of these waits.
    pub site: String,
    /// Share of all CPUs' time.
    pub share: f64,
    /// The rate of a CPU without these waits, if nothing else took their place: the most that it could be.
    pub rate_per_cpu_without: f64,
}

impl Bottleneck {
    /// The first bottleneck of a point, if it has one.
    pub fn of(point: &Point) -> Option<Self> {
        let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
        point.waits.iter().for_each(|wait| *shares.entry(&wait.field).or_default() += wait.share);
        let (field, share) = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let site = point.waits.iter().find(|wait| wait.field == field)?.site.clone();
        let rate_per_cpu_without = point.rate_per_cpu.value / (1.0 - share.min(0.9999));
        let found = Self {
            path: point.path,
            cpus: point.cpus,
            field: field.into(),
            site,
            share,
            rate_per_cpu_without,
        };
        (share > BOTTLENECK).then_some(found)
    }
}

/// The first paragraph: what becomes of a CPU's rate on each path.
pub fn paragraph(what: &str, operations: &str, points: &[Point]) -> String {
    let mut text = format!("{what}:");
    let paths = paths(points);
    for (index, path) in paths.iter().enumerate() {
        let of_path: Vec<_> = points.iter().filter(|point| point.path == *path).collect();
        let (Some(first), Some(last)) = (of_path.first(), of_path.last()) else { continue };
        let end = if index + 1 == paths.len() { '.' } else { ';' };
        text += &format!(" the {path} path does {}{end}", change(operations, first, last));
    }
    if let [first, .., last] = paths[..] {
        text += &comparison(points, first, last);
    }
    text
}

/// From the fewest CPUs to the most.
fn change(operations: &str, first: &Point, last: &Point) -> String {
    let rate = |point: &Point| {
        format!("{} {operations}/s per CPU on {}", number(point.rate_per_cpu.value), cpus(point.cpus))
    };
    if first.cpus == last.cpus {
        return rate(first);
    }
    let kept = last.rate_per_cpu.value / first.rate_per_cpu.value * 100.0;
    let range = [last.rate_per_cpu.low, last.rate_per_cpu.high].map(number).join(" to ");
    format!(
        "{} and {} on {} ({range} with costs doubled and halved): {} % of the rate",
        rate(first),
        number(last.rate_per_cpu.value),
        cpus(last.cpus),
        number(kept)
    )
}

fn comparison(points: &[Point], first: &str, second: &str) -> String {
    let last = |path: &str| points.iter().rfind(|point| point.path == path);
    let (Some(first), Some(second)) = (last(first), last(second)) else { return String::new() };
    let ratio = first.rate.value / second.rate.value;
    format!(
        " On {} all CPUs together do {} on the {} path and {} on the {} path, {} times as much.",
        cpus(first.cpus),
        number(first.rate.value),
        first.path,
        number(second.rate.value),
        second.path,
        number(ratio)
    )
}

/// The last paragraph: the first bottleneck of each path on the most CPUs.
pub fn bottlenecks(operations: &str, points: &[Point], found: &[Bottleneck]) -> String {
    let mut text = String::new();
    for path in paths(points) {
        let Some(point) = points.iter().rfind(|point| point.path == path) else { continue };
        let of_path = found.iter().find(|found| found.path == path && found.cpus == point.cpus);
        text += &match of_path {
            None => {
                format!("{path}, {}: no line is waited for more than 2 % of the time.\n", cpus(point.cpus))
            }
            Some(found) => format!(
                "{path}, {}: the first bottleneck is {} (wanted at {}), with {} % of all CPUs' time. Without \
                 these waits a CPU would do at most {} {operations}/s instead of {}.\n",
                cpus(point.cpus),
                found.field,
                found.site,
                number(found.share * 100.0),
                number(found.rate_per_cpu_without),
                number(point.rate_per_cpu.value)
            ),
        };
    }
    text
}

/// The paths of the points, each once, in their order.
pub fn paths(points: &[Point]) -> Vec<&'static str> {
    let mut paths: Vec<_> = points.iter().map(|point| point.path).collect();
    paths.dedup();
    paths
}

/// A number of CPUs in words.
pub fn cpus(cpus: u32) -> String {
    if cpus == 1 { "1 CPU".into() } else { format!("{cpus} CPUs") }
}
