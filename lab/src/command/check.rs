//! `interleaf check pairs`: every pair of operations for many seeds.

use super::Failure;
use crate::check::pairs::{all, play_pair};
use crate::show::Output;
use interleaf::table::format::X86_64;
use serde::Serialize;

/// The arguments of `interleaf check`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to check
    #[arg(value_enum)]
    what: What,
    /// Seeds to play for each pair
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// What can be checked.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// Every pair of operations, two CPUs, on the seeded machine
    Pairs,
}

/// What was played. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
struct Played {
    pairs: u64,
    seeds_per_pair: u64,
    steps: u64,
}

/// Checks, and fails with the first trouble.
pub fn run(args: Args) -> Result<(), Failure> {
    let What::Pairs = args.what;
    let seeds = args.first..args.first.saturating_add(args.seeds);
    let mut played = Played { pairs: 0, seeds_per_pair: args.seeds, steps: 0 };
    for pair in all() {
        let steps = play_pair::<X86_64>(pair, seeds.clone())
            .map_err(|trouble| Failure::check(trouble.to_string()))?;
        played.steps += steps;
        played.pairs += 1;
    }
    args.output.emit(&played, |played| {
        let Played { pairs, seeds_per_pair, steps } = played;
        format!(
            "{pairs} pairs, {seeds_per_pair} seeds each, {steps} steps: every outcome is that of some order\n"
        )
    })
}
