//! How a run reaches people and programs.

use super::counts::{Role, TaskCounts};
use super::runner::{RunResult, Setup};
use crate::os::host_info::HostInfo;
use crate::show::table::{self, grouped, number};
use hdrhistogram::Histogram;
use interleaf::space::{Counter, Fallback};
use interleaf::vma::{HugePolicy, MthpPolicies, MthpPolicy};
use serde::Serialize;
use std::collections::BTreeMap;

/// All runs that were asked for. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine it ran on.
    pub setting: HostInfo,
    /// What its tasks did.
    pub workload: &'static str,
    /// When memory got huge pages: `never`, `madvise` or `always`.
    pub huge: &'static str,
    /// When it got mTHP folios, as `64K=always`; `none` without any.
    pub huge_sizes: String,
    /// Memory that each task touched in a round.
    pub bytes_per_thread: u64,
    /// One for each number of CPUs and each path.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The name of the path.
    pub path: &'static str,
    /// CPUs.
    pub cpus: usize,
    /// Tasks.
    pub threads: usize,
    /// Page faults, however they ended: the sum of the next five.
    pub faults: u64,
    /// Resolved without the space's lock.
    pub speculated: u64,
    /// Resolved with the mapping locked.
    pub vma_locked: u64,
    /// Resolved under the lock, because all faults of the space are.
    pub locked: u64,
    /// Resolved under the lock after an attempt without it gave up, by reason.
    pub fell_back: BTreeMap<&'static str, u64>,
    /// Ended with a signal.
    pub errors: u64,
    /// The part of the faults that was speculated.
    pub share_speculated: f64,
    /// Faults per second of all tasks that are there to fault, by the number of CPUs.
    pub faults_per_second_per_cpu: f64,
    /// How long the handler took, mapping tasks included.
    pub latency_ns: Latency,
    /// Interrupts to flush that CPUs sent each other.
    pub interrupts: u64,
    /// All counters of the library.
    pub counters: BTreeMap<&'static str, u64>,
    /// Each task.
    pub tasks: Vec<Task>,
}

/// Percentiles of the fault handler's time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// Nine in ten are not longer.
    pub p90: u64,
    /// 99 in 100.
    pub p99: u64,
    /// 999 in 1 000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
    /// The mean.
    pub mean: f64,
}

/// One task.
#[derive(Clone, Debug, Serialize)]
pub struct Task {
    /// `faults` or `maps`.
    pub role: &'static str,
    /// Rounds.
    pub rounds: u64,
    /// Calls that change mappings or contents.
    pub calls: u64,
    /// Page faults.
    pub faults: u64,
    /// How long it was at it.
    pub seconds: f64,
}

/// The policy's name on the command line.
pub const fn huge_name(policy: HugePolicy) -> &'static str {
    match policy {
        HugePolicy::Never => "never",
        HugePolicy::Madvise => "madvise",
        HugePolicy::Always => "always",
    }
}

/// The mTHP sizes, upwards, on the command line.
pub const SIZE_NAMES: [&str; 7] = ["16K", "32K", "64K", "128K", "256K", "512K", "1M"];

/// The name of a size's policy on the command line.
pub const fn size_policy_name(policy: MthpPolicy) -> &'static str {
    match policy {
        MthpPolicy::Never => "never",
        MthpPolicy::Madvise => "madvise",
        MthpPolicy::Always => "always",
        MthpPolicy::Inherit => "inherit",
    }
}

/// The sizes that are used, as the command line takes them.
pub fn sizes_name(sizes: MthpPolicies) -> String {
    let used =
        MthpPolicies::orders().zip(SIZE_NAMES).filter(|(order, _)| sizes.policy(*order) != MthpPolicy::Never);
    let names = used.map(|(order, name)| format!("{name}={}", size_policy_name(sizes.policy(order))));
    let names: Vec<String> = names.collect();
    if names.is_empty() { "none".into() } else { names.join(",") }
}

impl Run {
    /// Puts a run into words.
    pub fn of(setup: &Setup, done: &RunResult) -> Run {
        let sum = &done.sum;
        Run {
            path: setup.path.name(),
            cpus: setup.cpus,
            threads: setup.threads,
            faults: sum.faults(),
            speculated: sum.speculated,
            vma_locked: sum.vma_locked,
            locked: sum.locked,
            fell_back: Fallback::ALL
                .iter()
                .map(|reason| reason.counter().name())
                .zip(sum.fell_back)
                .collect(),
            errors: sum.errors,
            share_speculated: done.share_speculated(),
            faults_per_second_per_cpu: done.faults_per_second() / setup.cpus as f64,
            latency_ns: sum.latency().map(Latency::of).unwrap_or_default(),
            interrupts: done.interrupts.sent,
            counters: done.counted.iter().map(|(counter, total)| (counter.name(), total)).collect(),
            tasks: done.tasks.iter().map(Task::of).collect(),
        }
    }

    fn title(&self) -> String {
        let plural = if self.cpus == 1 { "" } else { "s" };
        format!("{}, {} CPU{plural}", self.path, self.cpus)
    }
}

impl RunResult {
    /// The part of the faults that was speculated.
    pub fn share_speculated(&self) -> f64 {
        self.sum.speculated as f64 / self.sum.faults().max(1) as f64
    }

    /// Faults per second of the tasks that are there to fault, together.
    pub fn faults_per_second(&self) -> f64 {
        let faulting = self.tasks.iter().filter(|task| task.role == Role::Faults);
        faulting.map(TaskCounts::faults_per_second).sum()
    }
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Latency {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Latency {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
            mean: histogram.mean(),
        }
    }
}

impl Task {
    fn of(counts: &TaskCounts) -> Task {
        Task {
            role: if counts.role == Role::Faults { "faults" } else { "maps" },
            rounds: counts.rounds,
            calls: counts.calls,
            faults: counts.faults(),
            seconds: counts.busy.as_secs_f64(),
        }
    }
}

impl Report {
    /// The runs side by side: what is counted downwards.
    pub fn text(&self) -> String {
        let titles: Vec<String> = self.runs.iter().map(Run::title).collect();
        let header: Vec<&str> = std::iter::once("counted").chain(titles.iter().map(String::as_str)).collect();
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut row = |name: &str, value: &dyn Fn(&Run) -> String| {
            rows.push(std::iter::once(name.to_string()).chain(self.runs.iter().map(value)).collect());
        };
        let count = |n: u64| grouped(n as i64);
        row("tasks", &|r| r.threads.to_string());
        row("faults", &|r| count(r.faults));
        row("speculated", &|r| count(r.speculated));
        row("with the mapping locked", &|r| count(r.vma_locked));
        row("locked", &|r| count(r.locked));
        for reason in Fallback::ALL.map(|reason| reason.counter().name()) {
            row(reason, &|r| count(r.fell_back[reason]));
        }
        row("errors", &|r| count(r.errors));
        row("share speculated", &|r| format!("{:.4}", r.share_speculated));
        row("faults/s per CPU", &|r| number(r.faults_per_second_per_cpu));
        row("handler p50, ns", &|r| count(r.latency_ns.p50));
        row("handler p90, ns", &|r| count(r.latency_ns.p90));
        row("handler p99, ns", &|r| count(r.latency_ns.p99));
        row("handler p99.9, ns", &|r| count(r.latency_ns.p999));
        row("handler longest, ns", &|r| count(r.latency_ns.max));
        row("interrupts to flush", &|r| count(r.interrupts));
        for counter in [Counter::ThpFaultAlloc, Counter::ThpFaultFallback, Counter::ThpSplitPmd] {
            row(counter.name(), &|r| count(r.counters[counter.name()]));
        }
        let of_size = |order| [Counter::anon_fault_alloc(order), Counter::anon_fault_fallback(order)];
        for counter in MthpPolicies::orders().flat_map(of_size).flatten() {
            if self.runs.iter().any(|run| run.counters[counter.name()] > 0) {
                row(counter.name(), &|r| count(r.counters[counter.name()]));
            }
        }
        row("calls", &|r| count(r.tasks.iter().map(|task| task.calls).sum()));
        let mib = self.bytes_per_thread as f64 / f64::from(1 << 20);
        format!(
            "machine   {}\nworkload  {}, {} MiB for each task in a round; \
             done + fallbacks + errors = faults\nhuge      {}, mTHP sizes: {}\n\n{}",
            self.setting.line(),
            self.workload,
            number(mib),
            self.huge,
            self.huge_sizes,
            table::of(&header, rows)
        )
    }
}
