//! `interleaf check`: builds `interleaf-check` and runs it with the same words.
//!
//! What checks is a program of its own, as it compiles the library for several machines and formats of
//! tables: without it this one is built in half the time.

use super::Words;
use crate::error::Failure;
use crate::measure::checked::CHECK;
use std::ffi::OsString;

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
    /// Every pair of operations that commute: which share a line that one of them writes, and why
    Conflicts(Words),
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

/// Builds the program, says so where that takes long, and becomes it.
pub fn run(args: Args) -> Result<(), Failure> {
    let (name, Words { words }) = match args.what {
        What::Conflicts(words) => ("conflicts", words),
        What::Counts(words) => ("counts", words),
        What::Fuzz(words) => ("fuzz", words),
        What::Oracle(words) => ("oracle", words),
        What::Pairs(words) => ("pairs", words),
        What::Stress(words) => ("stress", words),
        What::Walkers(words) => ("walkers", words),
    };
    Err(CHECK.exec([OsString::from(name)].into_iter().chain(words)))
}
