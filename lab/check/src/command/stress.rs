//! `interleaf check stress`: tasks that do everything at once, on real threads.

use crate::stress::{self, Done, Length, MOST_TASKS, StressConfig};
use interleaf::space::Path;
use interleaf::table::format::X86_64;
use interleaf_lab::error::Failure;
use interleaf_lab::measure::bench::Options;
use interleaf_lab::show::Output;
use serde::Serialize;
use std::time::Duration;

/// The arguments of `interleaf check stress`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
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

/// What the tasks did, once for each path of faults. The field name is the JSON's and stays.
#[derive(Debug, Serialize)]
struct Stressed {
    runs: Vec<Done>,
}

/// Runs the tasks, once on each path of faults.
pub fn run(args: &Args) -> Result<(), Failure> {
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
    for path in Path::ALL {
        let config = StressConfig { tasks, cpus, length, seed: args.seed, path };
        runs.push(
            stress::run::<X86_64>(&config).map_err(|wrong| Failure::check(format!("{config:?}: {wrong}")))?,
        );
    }
    args.output.emit(&Stressed { runs }, |stressed| stressed.runs.iter().map(text).collect())
}

impl Args {
    /// How long each of the runs is.
    fn length(&self) -> Result<Length, Failure> {
        match self.rounds {
            Some(0) => return Err(Failure::usage("--rounds 0 plays nothing: at least 1")),
            Some(rounds) => return Ok(Length::Rounds(rounds)),
            None => {}
        }
        let seconds = self.seconds.unwrap_or(5.0);
        match Duration::try_from_secs_f64(seconds / Path::ALL.len() as f64) {
            Ok(time) if !time.is_zero() && seconds <= 86_400.0 => Ok(Length::Time(time)),
            _ => Err(Failure::usage(format!("--seconds {seconds}: more than none, at most a day"))),
        }
    }
}

fn text(done: &Done) -> String {
    let Done { tasks, cpus, rounds, turns, faults, speculated, vma_locked, fell_back, flushes } = done;
    format!(
        "{tasks} tasks on {cpus} CPUs: {rounds} rounds, {turns} turns, {faults} faults \
         ({speculated} speculated, {vma_locked} with a mapping locked, {fell_back} fell back), \
         {flushes} flushes; everything adds up\n"
    )
}
