//! All ways, for people and programs.

use super::{Measured, Way};
use crate::measure::init::report::size;
use crate::os::host_info::HostInfo;
use crate::show::table::{self, grouped, number};
use serde::Serialize;

/// What `interleaf teardown` gives. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine it ran on.
    pub setting: HostInfo,
    /// Bytes that were mapped.
    pub memory_bytes: u64,
    /// Huge entries.
    pub entries: u64,
    /// CPUs, the one that unmaps and one that walks.
    pub cpus: usize,
    /// One for each way.
    pub rows: Vec<Row>,
}

/// One way, several runs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is called.
    pub name: &'static str,
    /// The mean of all runs, ms.
    pub ms: f64,
    /// Its standard deviation.
    pub stdev: f64,
    /// Nanoseconds for each entry.
    pub ns_per_entry: f64,
    /// Interrupts of other CPUs, in the last run.
    pub interrupts: u64,
    /// Flushes, in the last run.
    pub flushes: u64,
    /// Walks by another CPU meanwhile, in the last run.
    pub walks: u64,
    /// The longest of all runs, us.
    pub longest_walk_us: f64,
    /// What 999 of 1 000 faults by another CPU did not exceed, in the last run, us.
    pub fault_p999_us: Option<f64>,
    /// The longest of all runs, us.
    pub fault_longest_us: Option<f64>,
    /// Runs.
    pub runs: usize,
}

impl Row {
    /// Sums up the runs of one way over `entries` entries.
    pub fn of(way: Way, entries: u64, runs: &[Measured]) -> Row {
        let count = runs.len().max(1) as f64;
        let ms = runs.iter().map(|run| run.ns / 1e6).sum::<f64>() / count;
        let spread = runs.iter().map(|run| (run.ns / 1e6 - ms).powi(2)).sum::<f64>();
        let last = runs.last().cloned().unwrap_or_default();
        let longest = |of: fn(&Measured) -> u64| runs.iter().map(of).max().unwrap_or(0) as f64 / 1e3;
        Row {
            name: way.name(),
            ms,
            stdev: (spread / (count - 1.0).max(1.0)).sqrt(),
            ns_per_entry: ms * 1e6 / entries as f64,
            interrupts: last.interrupts,
            flushes: last.flushes,
            walks: last.walks,
            longest_walk_us: longest(|run| run.longest_walk_ns),
            fault_p999_us: last.faults_ns.map(|[p999, _]| p999 as f64 / 1e3),
            fault_longest_us: last.faults_ns.map(|_| longest(|run| run.faults_ns.map_or(0, |[_, max]| max))),
            runs: runs.len(),
        }
    }
}

impl Report {
    /// As text, with the machine.
    pub fn text(&self) -> String {
        format!(
            "{}\n\n{} by {} huge entries; {}\n\n{}\n{}\n{WORDS}",
            self.setting.line(),
            size(self.memory_bytes),
            grouped(self.entries as i64),
            if self.cpus < 2 { "one CPU, no walker beside" } else { "one CPU unmaps, another walks" },
            self.table(),
            self.chart(),
        )
    }

    fn table(&self) -> String {
        let header = [
            "cleared by",
            "ms (stdev)",
            "ns/entry",
            "interrupts",
            "flushes",
            "walks",
            "longest, us",
            "fault p99.9, us",
            "longest, us",
        ];
        let optional = |value: Option<f64>| value.map_or_else(String::new, number);
        let rows = self.rows.iter().map(|row| {
            vec![
                row.name.to_string(),
                format!("{} ({})", number(row.ms), number(row.stdev)),
                number(row.ns_per_entry),
                grouped(row.interrupts as i64),
                grouped(row.flushes as i64),
                grouped(row.walks as i64),
                number(row.longest_walk_us),
                optional(row.fault_p999_us),
                optional(row.fault_longest_us),
            ]
        });
        table::of_used_columns(&header, rows.collect())
    }

    /// Bars of the times.
    fn chart(&self) -> String {
        const WIDTH: f64 = 40.0;
        let most = self.rows.iter().map(|row| row.ms).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let bar = |row: &Row| {
            let filled = (row.ms / most * WIDTH).round().max(1.0) as usize;
            format!("  {:<32} {} {} ms\n", row.name, "█".repeat(filled), number(row.ms))
        };
        self.rows.iter().map(bar).collect()
    }
}

const WORDS: &str = "  There is no memory behind the frames: entries, tables and flushes are measured.
  An interrupt for each entry is what a kernel needs that must wait for its walkers; here a walker
  reads each entry once, in a read section, and holds up only the freeing of tables. The longest
  walk or fault includes what the host took.
";
