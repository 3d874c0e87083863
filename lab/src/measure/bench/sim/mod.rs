//! Do two simulated CPUs do what two real ones do?
//!
//! The host is calibrated, and the profile predicts write faults of two CPUs in tables of their own and in
//! one table, on both paths; two host CPUs do the same. What must agree is the ratio of the paths. The times
//! themselves stand beside it, and a control: what two CPUs that share nothing take longer than one.
//!
//! A host that is a virtual machine may move its CPUs: at times they are threads of one core, and a line is
//! handed on in a fifth of the time. A pair counts while they are as far apart as when they were calibrated.

mod touch;

use super::paired::paired;
use super::{Bar, Benchmark, Figure, Options};
use crate::error::Failure;
use crate::machine::sim::Profile;
use crate::measure::calibrate;
use crate::measure::predicted::Predicted;
use crate::median::Median;
use interleaf::space::Path;
use touch::{Tables, in_one_space, on_own_machines};

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "sim",
    question: "Is the ratio of the paths of faults on two simulated CPUs that on two real ones?",
    figures: &[
        "sim.own_tables",
        "sim.own_tables_speculative",
        "sim.own_tables_locked",
        "sim.shared_table",
        "sim.shared_table_speculative",
        "sim.shared_table_locked",
        "sim.two_machines",
    ],
    run,
};

/// What of a pair of paths is compared: the workload of the prediction, the figures, and the bar of the
/// ratio.
struct Compared {
    workload: &'static str,
    tables: Tables,
    /// Of the ratio, of speculative and of locked faults.
    names: [&'static str; 3],
    bar: f64,
}

const COMPARED: [Compared; 2] = [
    Compared {
        workload: "page_fault1",
        tables: Tables::Own,
        names: ["sim.own_tables", "sim.own_tables_speculative", "sim.own_tables_locked"],
        bar: 1.10,
    },
    Compared {
        workload: "shared_tables",
        tables: Tables::Shared,
        names: ["sim.shared_table", "sim.shared_table_speculative", "sim.shared_table_locked"],
        bar: 1.15,
    },
];

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    if options.cpus.len() < 2 {
        // One CPU shares nothing: there is no figure.
        return Ok(Vec::new());
    }
    let profile = calibrate::calibrate(options)?;
    // A small run judges nothing, and its calibration is rough.
    let apart_ns = (!options.small).then_some(profile.costs.cluster as f64 / 1000.0);
    figures(options, apart_ns, |workload| predicted(&profile, workload))
}

fn predicted(profile: &Profile, workload: &str) -> Result<Predicted, Failure> {
    Predicted::of(profile, workload, 2, "speculative,locked")
}

/// All figures, against what is predicted of the workload of a name. `apart_ns`: how far apart the CPUs are
/// by what is predicted; else every pair counts.
///
/// # Errors
/// What the host says, or `predicted`.
pub fn figures(
    options: &Options,
    apart_ns: Option<f64>,
    predicted: impl Fn(&str) -> Result<Predicted, Failure>,
) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for compared in &COMPARED {
        figures.extend(compared.figures(options, apart_ns, &predicted(compared.workload)?)?);
    }
    let own_machines = |cpus| move || on_own_machines(options, cpus).expect("memory, as before");
    on_own_machines(options, 2)?;
    figures.push(paired(options, "sim.two_machines", "ns", own_machines(2), "one alone", own_machines(1)));
    Ok(figures)
}

impl Compared {
    /// The ratio, and the times on both paths.
    fn figures(
        &self,
        options: &Options,
        apart_ns: Option<f64>,
        predicted: &Predicted,
    ) -> Result<[Figure; 3], Failure> {
        let paths = [Path::Speculative, Path::Locked];
        let predicted = [predicted.ns("speculative")?, predicted.ns("locked")?];
        let of = |path| in_one_space(options, path, self.tables);
        let pair = || {
            let ([speculative, locked], again) = ([of(paths[0])?, of(paths[1])?], of(paths[0])?);
            Ok(Pair { times: [speculative, locked], again })
        };
        let pairs = while_apart(options, apart_ns, pair)?;
        let all = |of: fn(&Pair) -> f64| pairs.iter().map(of).collect::<Vec<_>>();
        let aa = Median::of(&all(|pair| pair.again / pair.times[0]));
        let ratios = all(|pair| pair.times[1] / pair.times[0]);
        let ratio = Figure::timed(self.names[0], "times", &ratios, aa);
        let expected = predicted[1] / predicted[0];
        let ratio = ratio.against("predicted", expected, apart(Median::of(&ratios), expected));
        let time = |at: usize, times: &[f64]| {
            let shares: Vec<_> = times.iter().map(|time| time / predicted[at]).collect();
            let figure = Figure::timed(self.names[1 + at], "ns", times, aa);
            figure.against("predicted", predicted[at], Median::of(&shares))
        };
        let times = [time(0, &all(|pair| pair.times[0])), time(1, &all(|pair| pair.times[1]))];
        let [speculative, locked] = times;
        let judged = |figure: Figure| if options.small { figure.unjudged() } else { figure };
        Ok([judged(ratio).with_bar(Bar::AtMost(self.bar)), judged(speculative), judged(locked)])
    }
}

/// As many pairs as are wanted, taken while the CPUs are as far apart as is said.
fn while_apart(
    options: &Options,
    apart_ns: Option<f64>,
    pair: impl Fn() -> Result<Pair, Failure>,
) -> Result<Vec<Pair>, Failure> {
    let is_apart = || {
        let is_near = |wanted: f64| (0.85..1.15).contains(&(apart_ns_of(options) / wanted));
        apart_ns.is_none_or(is_near)
    };
    let mut pairs = Vec::new();
    for _ in 0..TRIES * options.pairs {
        let (before, pair, after) = (is_apart(), pair()?, is_apart());
        pairs.extend((before && after).then_some(pair));
        if pairs.len() == options.pairs {
            return Ok(pairs);
        }
    }
    Err(Failure::check(format!(
        "sim: the host moved its CPUs: {} of {} pairs were taken while they were as far apart as when they \
         were calibrated",
        pairs.len(),
        TRIES * options.pairs
    )))
}

fn apart_ns_of(options: &Options) -> f64 {
    calibrate::apart_ns((options.cpus[0], options.cpus[1]))
}

/// For each pair that is wanted, how many may be taken.
const TRIES: usize = 10;

/// Nanoseconds of a fault on both paths, and of the first once more.
struct Pair {
    times: [f64; 2],
    again: f64,
}

/// By what factor a ratio and what was predicted differ, whichever is larger.
fn apart(ratio: Median, expected: f64) -> Median {
    let factor = |ratio: f64| (ratio / expected).max(expected / ratio);
    let (one, other) = (factor(ratio.low), factor(ratio.high));
    let is_within = (ratio.low..=ratio.high).contains(&expected);
    Median {
        middle: factor(ratio.middle),
        low: if is_within { 1.0 } else { one.min(other) },
        high: one.max(other),
    }
}

#[cfg(test)]
#[path = "../tests/sim.rs"]
mod tests;
