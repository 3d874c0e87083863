//! The command line of `interleaf check`: one file per subcommand, each with its `Args` and its `run`.

mod conflicts;
mod counts;
mod fuzz;
mod oracle;
mod pairs;
mod stress;
mod walkers;

use clap::Parser;
use interleaf_lab::error::Failure;
use interleaf_lab::os::terminal;
use interleaf_lab::show::width;
use std::ops::Range;
use std::process::ExitCode;

/// Plays the library under seeds, beside a plain model and beside the host's Linux.
#[derive(Parser)]
#[command(name = "interleaf check", version, about, max_term_width = 80)]
struct Line {
    /// What to check
    #[command(subcommand)]
    what: What,
}

/// What can be checked. `interleaf` lists the same names: `lab/src/cli/check.rs`.
#[derive(clap::Subcommand)]
enum What {
    /// Every pair of operations that commute: which share a line that one of them writes, and why
    Conflicts(conflicts::Args),
    /// Exact counts of the seeded and of the recording machine, which `interleaf bench` judges
    Counts(counts::Args),
    /// Random cases of spaces, parsers and the oracle, until a time is over
    Fuzz(fuzz::Args),
    /// Random calls with huge pages, the host's Linux beside the model and the library
    Oracle(oracle::Args),
    /// Every pair of operations, two CPUs, on the seeded machine
    Pairs(pairs::Args),
    /// Tasks that do everything at once, on real threads; then everything is recounted
    Stress(stress::Args),
    /// Every walker beside every pair of writers, on the seeded machine; some stop anywhere for ever
    Walkers(walkers::Args),
}

/// Reads the command line, does what it says and returns the exit status, as `interleaf_lab::cli::main` does.
pub fn main() -> ExitCode {
    let line = Line::parse();
    width::set_terminal(terminal::columns());
    let checked = match line.what {
        What::Conflicts(args) => conflicts::run(&args),
        What::Counts(args) => counts::run(&args),
        What::Fuzz(args) => fuzz::run(&args),
        What::Oracle(args) => oracle::run(&args),
        What::Pairs(args) => pairs::run(&args),
        What::Stress(args) => stress::run(&args),
        What::Walkers(args) => walkers::run(&args),
    };
    match checked {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The names of all subcommands, each with its line of description.
pub fn every() -> Vec<(String, String)> {
    use clap::CommandFactory;
    let about = |c: &clap::Command| c.get_about().map(ToString::to_string).unwrap_or_default();
    Line::command().get_subcommands().map(|c| (c.get_name().to_string(), about(c))).collect()
}

/// Whether `text`, starting with `interleaf check`, is a line that is understood.
pub fn understands(text: &str) -> bool {
    let words = text.strip_prefix("interleaf ").unwrap_or_default().split_whitespace();
    Line::try_parse_from(words).is_ok() && text.starts_with("interleaf check ")
}

/// The seeds to play, at least one.
fn seeds_from(first: u64, seeds: u64) -> Result<Range<u64>, Failure> {
    match first.checked_add(seeds) {
        Some(end) if end > first => Ok(first..end),
        Some(_) => Err(Failure::usage("--seeds 0 plays nothing: at least 1")),
        None => Err(Failure::usage(format!("--first {first} --seeds {seeds}: seeds end at {}", u64::MAX))),
    }
}
