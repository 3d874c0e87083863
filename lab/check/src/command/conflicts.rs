//! `interleaf check conflicts`: which pairs of operations share a line that one of them writes.

use crate::conflicts::matrix::{self, Operation, Report};
use interleaf_lab::error::Failure;
use interleaf_lab::show::{Output, OutputFile, Progress};
use std::path::PathBuf;

/// The arguments of `interleaf check conflicts`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// States to play for each pair and distance
    #[arg(long, value_name = "N", default_value_t = 20)]
    states: u64,
    /// Draws the states
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Only the pairs with this operation
    #[arg(long, value_name = "OPERATION")]
    with: Option<String>,
    /// Also write the matrix as a picture, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Plays, prints, and fails where a pair shares what is not pinned.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.states == 0 || args.states > u64::from(u32::MAX) {
        return Err(Failure::usage(format!("--states {}: 1 to {}", args.states, u32::MAX)));
    }
    let operation = args.operation()?;
    let picture = args.svg.as_deref().map(|path| OutputFile::open("--svg", path)).transpose()?;
    let wanted = |pair: [Operation; 2]| operation.is_none_or(|operation| pair.contains(&operation));
    let nr_cells = Operation::pairs().filter(|&pair| wanted(pair)).count() * matrix::Distance::ALL.len();
    let progress = Progress::new(args.output, nr_cells);
    let cells = matrix::play(wanted, args.states, args.seed, |name| progress.step(name));
    progress.done();
    if let Some(picture) = picture {
        picture.write(&matrix::svg(&cells))?;
    }
    let report = Report::of(&cells, args.states, args.seed);
    args.output.emit(&report, |report| report.text(&cells))?;
    match &report.new[..] {
        [] => Ok(()),
        [first, rest @ ..] => {
            Err(Failure::check(format!("shared and not pinned: {first} ({} more)", rest.len())))
        }
    }
}

impl Args {
    /// The operation that all pairs have.
    fn operation(&self) -> Result<Option<Operation>, Failure> {
        let Some(name) = &self.with else { return Ok(None) };
        let found = Operation::ALL.into_iter().find(|operation| operation.name() == name);
        let known = || Operation::ALL.map(Operation::name).join(", ");
        found.map(Some).ok_or_else(|| Failure::usage(format!("--with {name}: one of {}", known())))
    }
}
