//! `interleaf check pairs|walkers|stress|fuzz|oracle`: many schedules of two operations, or of a walker
//! beside writers (`walkers.rs`), many threads for a while, random cases (`fuzz.rs`), or the host's Linux
//! (`oracle.rs`).

use crate::check::pairs::{Operation, all, run_pair};
use crate::check::stress::{self, Done, Length, MOST_TASKS, StressConfig};
use crate::error::Failure;
use crate::measure::bench::Options;
use crate::show::{Output, Progress};
use interleaf::space::Path;
use interleaf::table::format::{Aarch64, X86_64};
use serde::Serialize;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The arguments of `interleaf check`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to check
    #[command(subcommand)]
    what: What,
}

/// What can be checked.
#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Every pair of operations, two CPUs, on the seeded machine
    Pairs(Pairs),
    /// Random cases of spaces, parsers and the oracle, until a time is over
    Fuzz(super::fuzz::Args),
    /// Random calls with huge pages, the host's Linux beside the model and the library
    Oracle(super::oracle::Args),
    /// Tasks that do everything at once, on real threads; then everything is recounted
    Stress(Stress),
    /// Every walker beside every pair of writers, on the seeded machine; some stop anywhere for ever
    Walkers(super::walkers::Args),
}

/// The arguments of `interleaf check pairs`.
#[derive(Clone, Debug, clap::Args)]
struct Pairs {
    /// Seeds to play for each pair
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Only the pairs with this operation
    #[arg(long, value_name = "OPERATION")]
    with: Option<String>,
    /// The format of the tables
    #[arg(long, value_enum, default_value_t = Tables::X86_64)]
    format: Tables,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// A format of tables.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Tables {
    /// Four levels, as x86-64 has them
    X86_64,
    /// AArch64 with pages of 4 KiB, where a present entry changes through an absent one
    Aarch64,
}

/// The arguments of `interleaf check stress`.
#[derive(Clone, Debug, clap::Args)]
struct Stress {
    /// How many tasks; three for each CPU, if nothing is said
    #[arg(long, value_name = "N")]
    tasks: Option<u32>,
    /// On how many CPUs they take turns; as many as there are, if nothing is said
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// How long; 5, if nothing is said
    #[arg(long, value_name = "S", conflicts_with = "rounds")]
    seconds: Option<f64>,
    /// How many rounds each task does, instead of a time
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// What the tasks do
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// What was played. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
struct Played {
    pairs: u64,
    seeds_per_pair: u64,
    steps: u64,
    seconds: f64,
}

/// What the tasks did, once for each path of faults. The field name is the JSON's and stays.
#[derive(Debug, Serialize)]
struct Stressed {
    runs: Vec<Done>,
}

/// Checks, and fails with the first trouble.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Fuzz(args) => super::fuzz::run(&args),
        What::Oracle(args) => super::oracle::run(&args),
        What::Pairs(args) => pairs(&args),
        What::Stress(args) => stress(&args),
        What::Walkers(args) => super::walkers::run(&args),
    }
}

/// Plays all pairs, on as many threads as there are CPUs.
fn pairs(args: &Pairs) -> Result<(), Failure> {
    let seeds = seeds_from(args.first, args.seeds)?;
    let start = Instant::now();
    let chosen = args.chosen()?;
    let progress = Progress::new(args.output, chosen.len());
    let play = |pair: (Operation, Operation)| -> Result<u64, Failure> {
        progress.step(&format!("{:?} against {:?}", pair.0, pair.1));
        let steps = match args.format {
            Tables::X86_64 => run_pair::<X86_64>(pair, seeds.clone()),
            Tables::Aarch64 => run_pair::<Aarch64>(pair, seeds.clone()),
        };
        steps.map_err(|trouble| Failure::check(trouble.to_string()))
    };
    let steps = on_all_cpus(chosen, play)?;
    progress.done();
    let played = Played {
        pairs: steps.len() as u64,
        seeds_per_pair: args.seeds,
        steps: steps.iter().sum(),
        seconds: start.elapsed().as_secs_f64(),
    };
    args.output.emit(&played, |played| {
        let Played { pairs, seeds_per_pair, steps, seconds } = played;
        format!(
            "{pairs} pairs, {seeds_per_pair} seeds each, {steps} steps in {seconds:.0} s: \
             every outcome is that of some order"
        )
    })
}

/// Does each piece of work, on as many threads as there are CPUs; returns the results in the order of the
/// work.
pub(super) fn on_all_cpus<T: Send, R: Send>(
    work: Vec<T>,
    act: impl Fn(T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let left = Mutex::new(work.into_iter().enumerate());
    let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let all = || -> Result<Vec<(usize, R)>, Failure> {
        let mut done = Vec::new();
        while let Some((at, piece)) = take() {
            done.push((at, act(piece)?));
        }
        Ok(done)
    };
    let threads = Options::full().cpus.len().max(1);
    let parts: Result<Vec<_>, _> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(all)).collect();
        workers.into_iter().map(|worker| worker.join().expect("troubles are told, not thrown")).collect()
    });
    let mut done: Vec<_> = parts?.into_iter().flatten().collect();
    done.sort_by_key(|&(at, _)| at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// The seeds to play, at least one.
pub(super) fn seeds_from(first: u64, seeds: u64) -> Result<Range<u64>, Failure> {
    match first.checked_add(seeds) {
        Some(end) if end > first => Ok(first..end),
        Some(_) => Err(Failure::usage("--seeds 0 plays nothing: at least 1")),
        None => Err(Failure::usage(format!("--first {first} --seeds {seeds}: seeds end at {}", u64::MAX))),
    }
}

/// Runs the tasks, once with faults that speculate and once with faults that take the lock.
fn stress(args: &Stress) -> Result<(), Failure> {
    let lent = Options::full().cpus.len() as u32;
    let cpus = args.cpus.unwrap_or(lent);
    if !(1..=lent).contains(&cpus) {
        return Err(Failure::usage(format!("--cpus {cpus}: this machine lends 1 to {lent}")));
    }
    let tasks = args.tasks.unwrap_or(3 * cpus);
    if !(1..=MOST_TASKS).contains(&tasks) {
        return Err(Failure::usage(format!("--tasks {tasks}: 1 to {MOST_TASKS}")));
    }
    let length = args.length()?;
    let mut runs = Vec::new();
    for path in [Path::Speculative, Path::Locked] {
        let config = StressConfig { tasks, cpus, length, seed: args.seed, path };
        runs.push(
            stress::run::<X86_64>(&config).map_err(|wrong| Failure::check(format!("{config:?}: {wrong}")))?,
        );
    }
    args.output.emit(&Stressed { runs }, |stressed| stressed.runs.iter().map(text).collect())
}

impl Pairs {
    /// The pairs to play.
    fn chosen(&self) -> Result<Vec<(Operation, Operation)>, Failure> {
        let Some(name) = &self.with else { return Ok(all().collect()) };
        let is_meant = |operation: &Operation| format!("{operation:?}").eq_ignore_ascii_case(name);
        let Some(&wanted) = Operation::ALL.iter().find(|operation| is_meant(operation)) else {
            return Err(Failure::usage(format!("--with {name}: one of {:?}", Operation::ALL)));
        };
        Ok(all().filter(|&(a, b)| a == wanted || b == wanted).collect())
    }
}

impl Stress {
    /// How long each of the two runs is.
    fn length(&self) -> Result<Length, Failure> {
        match self.rounds {
            Some(0) => return Err(Failure::usage("--rounds 0 plays nothing: at least 1")),
            Some(rounds) => return Ok(Length::Rounds(rounds)),
            None => {}
        }
        let seconds = self.seconds.unwrap_or(5.0);
        match Duration::try_from_secs_f64(seconds / 2.0) {
            Ok(time) if !time.is_zero() && seconds <= 86_400.0 => Ok(Length::Time(time)),
            _ => Err(Failure::usage(format!("--seconds {seconds}: more than none, at most a day"))),
        }
    }
}

fn text(done: &Done) -> String {
    let Done { tasks, cpus, rounds, turns, faults, speculated, fell_back, flushes } = done;
    format!(
        "{tasks} tasks on {cpus} CPUs: {rounds} rounds, {turns} turns, {faults} faults \
         ({speculated} speculated, {fell_back} fell back), {flushes} flushes; everything adds up\n"
    )
}
