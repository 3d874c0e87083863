//! `interleaf check pairs`: two operations at once, under many schedules.

use super::seeds_from;
use crate::pairs::{Operation, all, run_pair};
use interleaf::table::format::{Aarch64, X86_64};
use interleaf_lab::error::Failure;
use interleaf_lab::os::on_all_cpus;
use interleaf_lab::show::{Output, Progress};
use serde::Serialize;
use std::time::Instant;

/// The arguments of `interleaf check pairs`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
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

/// What was played. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
struct Played {
    pairs: u64,
    seeds_per_pair: u64,
    steps: u64,
    seconds: f64,
}

/// Plays all pairs, on as many threads as there are CPUs.
pub fn run(args: &Args) -> Result<(), Failure> {
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

impl Args {
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
