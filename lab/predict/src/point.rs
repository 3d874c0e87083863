//! A prediction for one path and one number of CPUs, with its range.

use crate::linux::Way;
use crate::sample::Sample;
use crate::waits::NamedWait;
use interleaf_lab::machine::sim::Setting;
use serde::Serialize;

/// A number, and the least and the most that it is with costs halved, as they are, and doubled. The field
/// names are the JSON's and stay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ranged {
    /// With the profile's costs.
    pub value: f64,
    /// The least of the three.
    pub low: f64,
    /// The most of the three.
    pub high: f64,
}

/// What is predicted. The field names are the JSON's and stay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The name of the path.
    pub path: &'static str,
    /// CPUs.
    pub cpus: u32,
    /// Operations per second of a CPU.
    pub rate_per_cpu: Ranged,
    /// Operations per second of all CPUs.
    pub rate: Ranged,
    /// The median time of an operation, in nanoseconds.
    pub p50_ns: Ranged,
    /// 99 in 100 are not longer.
    pub p99_ns: Ranged,
    /// 999 in 1 000.
    pub p999_ns: Ranged,
    /// Time of all CPUs in faults, milliseconds.
    pub faults_ms: Ranged,
    /// Time of all CPUs in calls.
    pub calls_ms: Ranged,
    /// From the start until the last CPU has ended, what is not measured included.
    pub elapsed_ms: Ranged,
    /// Operations measured.
    pub operations: u64,
    /// Accesses simulated.
    pub accesses: u64,
    /// Interrupts sent.
    pub interrupts: u64,
    /// What CPUs waited for, the longest waits first.
    pub waits: Vec<NamedWait>,
    /// The same for two runs with the same accesses at the same times.
    pub fingerprint: String,
}

/// How the costs of communication are changed for a range; the first is the prediction.
const SCALES: [(u64, u64); 3] = [(1, 1), (1, 2), (2, 1)];

impl Point {
    /// The number of runs that a point takes.
    pub const RUNS: usize = SCALES.len();

    /// The setting of each run that a point takes.
    pub fn settings(setting: Setting) -> [Setting; Self::RUNS] {
        SCALES.map(|times| Setting { costs: setting.costs.with_communication(times), ..setting })
    }

    /// The prediction of the runs with these settings.
    pub fn of(way: impl Into<Way>, cpus: u32, runs: &[Sample]) -> Self {
        let ranged = |of: fn(&Sample) -> f64| {
            let all = runs.iter().map(of);
            let (low, high) = (all.clone().fold(f64::INFINITY, f64::min), all.fold(0.0, f64::max));
            Ranged { value: of(&runs[0]), low, high }
        };
        Self {
            path: way.into().name(),
            cpus,
            rate_per_cpu: ranged(|run| run.rate_per_cpu),
            rate: ranged(|run| run.rate),
            p50_ns: ranged(|run| run.p50 as f64 / 1000.0),
            p99_ns: ranged(|run| run.p99 as f64 / 1000.0),
            p999_ns: ranged(|run| run.p999 as f64 / 1000.0),
            faults_ms: ranged(|run| run.faults as f64 / 1e9),
            calls_ms: ranged(|run| run.calls as f64 / 1e9),
            elapsed_ms: ranged(|run| run.elapsed as f64 / 1e9),
            operations: runs[0].operations,
            accesses: runs[0].accesses,
            interrupts: runs[0].interrupts,
            fingerprint: format!("{:016x}", runs[0].fingerprint),
            waits: runs[0].waits.clone(),
        }
    }

    /// The share of all CPUs' time that is spent on waits.
    pub fn share_waiting(&self) -> f64 {
        self.waits.iter().map(|wait| wait.share).sum()
    }
}
