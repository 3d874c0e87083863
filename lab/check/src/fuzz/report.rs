//! What was played, and how fast.

use super::{Group, Played};
use interleaf_lab::show::table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Executions of each target, on one thread or on several.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(BTreeMap<(Group, &'static str), (u64, u64, Duration)>);

impl Counts {
    /// Adds a case that took `time`.
    pub(super) fn add(&mut self, group: Group, played: Played, time: Duration) {
        let (cases, executions, spent) = self.0.entry((group, played.target)).or_default();
        (*cases, *executions, *spent) = (*cases + 1, *executions + played.executions, *spent + time);
    }

    /// Adds those of another thread.
    pub(super) fn merge(&mut self, other: Counts) {
        for (target, (more_cases, more, time)) in other.0 {
            let (cases, executions, spent) = self.0.entry(target).or_default();
            (*cases, *executions, *spent) = (*cases + more_cases, *executions + more, *spent + time);
        }
    }

    fn rows(self) -> Vec<Row> {
        let row = |((group, target), (cases, executions, time)): (_, (u64, u64, Duration))| {
            let cpu_seconds = time.as_secs_f64();
            Row { group, target, cases, executions, cpu_seconds, per_second: executions as f64 / cpu_seconds }
        };
        self.0.into_iter().map(row).collect()
    }
}

/// The cases of one target. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The group.
    pub group: Group,
    /// The part of it.
    pub target: &'static str,
    /// Cases played.
    pub cases: u64,
    /// Executions of all cases.
    pub executions: u64,
    /// Time that they took, on all threads together.
    pub cpu_seconds: f64,
    /// Executions in a second of one thread.
    pub per_second: f64,
}

/// What a run of the fuzzers played. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct FuzzReport {
    /// The seed of the run.
    pub seed: u64,
    /// Threads.
    pub jobs: u32,
    /// Whether debug assertions and failures of allocation were compiled in.
    pub debug_assertions: bool,
    /// How long it took.
    pub seconds: f64,
    /// Executions of all targets.
    pub executions: u64,
    /// One for each target.
    pub rows: Vec<Row>,
    /// What could not be played on this machine.
    pub left_out: Vec<String>,
}

impl FuzzReport {
    pub(super) fn new(seed: u64, jobs: u32, seconds: f64, counts: Counts, left_out: Vec<String>) -> Self {
        let rows = counts.rows();
        let executions = rows.iter().map(|row| row.executions).sum();
        let debug_assertions = cfg!(debug_assertions);
        Self { seed, jobs, debug_assertions, seconds, executions, rows, left_out }
    }

    /// The table, and a line for the whole.
    #[must_use]
    pub fn text(&self) -> String {
        let grouped = |number: u64| table::grouped(number as i64);
        let cells = |row: &Row| {
            vec![
                row.group.name().to_string(),
                row.target.to_string(),
                grouped(row.cases),
                grouped(row.executions),
                grouped(row.per_second as u64),
            ]
        };
        let header = ["group", "target", "cases", "executions", "per second and thread"];
        let rate = self.executions as f64 / self.seconds;
        let asserts = if self.debug_assertions { "with" } else { "without" };
        let left_out: String = self.left_out.iter().map(|line| format!("not played: {line}\n")).collect();
        format!(
            "{}{left_out}seed {}: {} executions in {:.0} s on {} threads, {} a second, \
             {asserts} debug assertions: nothing failed\n",
            table::of(&header, self.rows.iter().map(cells)),
            self.seed,
            grouped(self.executions),
            self.seconds,
            self.jobs,
            grouped(rate as u64),
        )
    }
}
