//! `interleaf check`: builds `interleaf-check` and runs it with the same words.
//!
//! What checks is a program of its own, as it compiles the library for several machines and formats of
//! tables: without it this one is built in half the time.

use crate::error::Failure;
use crate::measure::checked;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

/// The arguments of `interleaf check`.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub struct Args {
    /// What to check
    #[command(subcommand)]
    what: What,
}

/// What can be checked.
#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Exact counts of the seeded and of the recording machine, which `interleaf bench` judges
    Counts(Words),
    /// Random cases of spaces, parsers and the oracle, until a time is over
    Fuzz(Words),
    /// Random calls with huge pages, the host's Linux beside the model and the library
    Oracle(Words),
    /// Every pair of operations, two CPUs, on the seeded machine
    Pairs(Words),
    /// Tasks that do everything at once, on real threads; then everything is recounted
    Stress(Words),
    /// Every walker beside every pair of writers, on the seeded machine; some stop anywhere for ever
    Walkers(Words),
}

/// Words that `interleaf-check` reads.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
struct Words {
    /// Its arguments: `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Builds the program, says so where that takes long, and becomes it.
pub fn run(args: Args) -> Result<(), Failure> {
    let (name, Words { words }) = match args.what {
        What::Counts(words) => ("counts", words),
        What::Fuzz(words) => ("fuzz", words),
        What::Oracle(words) => ("oracle", words),
        What::Pairs(words) => ("pairs", words),
        What::Stress(words) => ("stress", words),
        What::Walkers(words) => ("walkers", words),
    };
    let error = checked::program()?.arg(name).args(words).exec();
    Err(Failure::usage(format!("{} cannot be run: {error}", checked::PACKAGE)))
}
