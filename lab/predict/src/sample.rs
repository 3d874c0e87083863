//! What one run measured.

use crate::waits::NamedWait;
use interleaf_lab::machine::sim::{Ps, Report, now_ps};

/// What one CPU did.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    /// How long each operation took.
    times: Vec<Ps>,
    /// How long all of them took; of it, faults and calls.
    busy: Ps,
    faults: Ps,
    calls: Ps,
    /// The time of parts that no operation has yet.
    uncounted: Ps,
}

impl Operations {
    /// Does an operation, and notes how long it takes.
    pub fn operation(&mut self, act: impl FnOnce(&mut Self)) {
        let began = now_ps();
        act(self);
        let took = now_ps() - began;
        self.times.push(took);
        self.busy += took;
    }

    /// Does the part of an operation that is a fault.
    pub fn fault(&mut self, act: impl FnOnce()) {
        let began = now_ps();
        act();
        self.faults += now_ps() - began;
    }

    /// Does the part of an operation that is a call.
    pub fn call<R>(&mut self, act: impl FnOnce() -> R) -> R {
        let began = now_ps();
        let result = act();
        self.calls += now_ps() - began;
        result
    }

    /// Does a part of several operations, which are [counted](Self::count) when all parts are done.
    pub fn part<R>(&mut self, act: impl FnOnce() -> R) -> R {
        let began = now_ps();
        let result = act();
        self.uncounted += now_ps() - began;
        result
    }

    /// The parts since the last call were so many operations, which are taken to have lasted alike.
    pub fn count(&mut self, operations: usize) {
        let took = std::mem::take(&mut self.uncounted);
        self.times.extend(std::iter::repeat_n(took / operations.max(1) as Ps, operations));
        self.busy += took;
    }

    fn rate(&self) -> f64 {
        self.times.len() as f64 * 1e12 / self.busy.max(1) as f64
    }
}

/// What one run measured.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Operations per second of a CPU, the mean of all.
    pub rate_per_cpu: f64,
    /// Operations per second of all CPUs.
    pub rate: f64,
    /// Percentiles of the time of an operation, picoseconds.
    pub p50: Ps,
    /// 99 in 100 are not longer.
    pub p99: Ps,
    /// 999 in 1 000.
    pub p999: Ps,
    /// Time of all CPUs in faults, picoseconds.
    pub faults: Ps,
    /// Time of all CPUs in calls.
    pub calls: Ps,
    /// When the last CPU came to its end.
    pub elapsed: Ps,
    /// What CPUs waited for, the longest waits first.
    pub waits: Vec<NamedWait>,
    /// Operations that were measured.
    pub operations: u64,
    /// Accesses of the run, what was not measured included.
    pub accesses: u64,
    /// Interrupts sent in the run.
    pub interrupts: u64,
    /// A number that two runs share if all CPUs accessed the same at the same times.
    pub fingerprint: u64,
}

impl Sample {
    /// Sums up what each CPU did.
    pub fn new(cpus: &[Operations], report: &Report, waits: Vec<NamedWait>) -> Self {
        let working: Vec<_> = cpus.iter().filter(|cpu| !cpu.times.is_empty()).collect();
        let rate = working.iter().map(|cpu| cpu.rate()).sum();
        let mut times: Vec<Ps> = working.iter().flat_map(|cpu| cpu.times.iter().copied()).collect();
        times.sort_unstable();
        let at = |part: usize, whole: usize| {
            times.get(times.len() * part / whole).or(times.last()).copied().unwrap_or(0)
        };
        Self {
            rate_per_cpu: rate / working.len().max(1) as f64,
            rate,
            p50: at(1, 2),
            p99: at(99, 100),
            p999: at(999, 1000),
            faults: working.iter().map(|cpu| cpu.faults).sum(),
            calls: working.iter().map(|cpu| cpu.calls).sum(),
            elapsed: report.ended.iter().copied().max().unwrap_or(0),
            operations: times.len() as u64,
            waits,
            accesses: report.accesses,
            interrupts: report.interrupts,
            fingerprint: report.fingerprint,
        }
    }
}
