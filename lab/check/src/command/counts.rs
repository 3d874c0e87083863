//! `interleaf check counts`: exact counts of the seeded and of the recording machine.

use crate::counts::{COUNTED, Count};
use interleaf_lab::error::Failure;
use interleaf_lab::measure::bench::Options;
use interleaf_lab::show::Output;
use serde::Serialize;

/// The arguments of `interleaf check counts`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to count: everything, if nothing is said
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Few schedules and rounds
    #[arg(long)]
    small: bool,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// What was counted. The field name is the JSON's and stays.
#[derive(Debug, Serialize)]
struct Counts {
    counts: Vec<Count>,
}

/// Counts, and prints each count with its name.
pub fn run(args: &Args) -> Result<(), Failure> {
    let options = if args.small { Options::small() } else { Options::full() };
    let wanted = |name: &str| args.name.as_deref().is_none_or(|wanted| wanted == name);
    let chosen: Vec<_> = COUNTED.iter().filter(|(name, _)| wanted(name)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = COUNTED.iter().map(|(name, _)| *name).collect();
        return Err(Failure::usage(format!("nothing is called so: one of {}", names.join(", "))));
    }
    let mut counts = Vec::new();
    for (_, count) in chosen {
        counts.extend(count(&options)?);
    }
    args.output.emit(&Counts { counts }, |counts| {
        counts.counts.iter().map(|count| format!("{}  {}\n", count.name, count.value)).collect()
    })
}
