//! The command line: one file per subcommand, each with its `Args` and its `run`.
//!
//! To add one: a file with `pub struct Args` (a `clap::Args` that flattens [`Output`](crate::show::Output))
//! and `pub fn run(args: Args) -> Result<(), Failure>`, then one line in each of the three lists below, in
//! alphabetical order.

#![forbid(unsafe_code)]

pub mod bench;
pub mod boot;
pub mod calibrate;
pub mod check;
pub mod doctor;
pub mod fault;
pub mod huge;
pub mod init;
pub mod list;
pub mod predict;
pub mod record;
pub mod replay;
pub mod teardown;
pub mod tour;
pub mod trace;
pub mod zero;

use crate::error::Failure;
use crate::os::terminal;
use crate::show::width;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// Scalable virtual memory, run on an ordinary Linux box: recorded, replayed, checked and measured.
#[derive(Parser)]
#[command(name = "interleaf", version, about, max_term_width = 80, args_conflicts_with_subcommands = true)]
struct Line {
    /// What to do; the tour, if nothing is said.
    #[command(subcommand)]
    command: Option<Command>,
    /// The tour's own arguments, taken without its name.
    #[command(flatten)]
    tour: tour::Args,
}

/// Every subcommand there is.
#[derive(Subcommand)]
enum Command {
    /// Measure against yardsticks, in pairs, with intervals
    Bench(bench::Args),
    /// Boot the kernel in an emulator, and run a program in it
    Boot(boot::Args),
    /// Measure what things cost on this machine, for `interleaf predict`
    Calibrate(calibrate::Args),
    /// Play pairs of operations, or walkers beside writers, under many schedules; or many tasks at once
    Check(check::Args),
    /// Say what this machine lacks, and how to get it
    Doctor(doctor::Args),
    /// Run a workload of page faults, and say which way they went
    Fault(fault::Args),
    /// Boot the frame table of a large machine, for real, and say how long it takes
    Init(init::Args),
    /// List every command, benchmark and section of the tour, one line each
    List(list::Args),
    /// Predict how a workload does on many CPUs, in virtual time
    Predict(predict::Args),
    /// Record what a real program does to its memory
    Record(record::Args),
    /// Run recorded programs again on our address space, and compare with Linux
    Replay(replay::Args),
    /// Unmap a large guest's memory, and say which CPUs that interrupted
    Teardown(teardown::Args),
    /// Show every experiment, small, in under a minute (the default)
    Tour(tour::Args),
    /// Say what is in a trace
    Trace(trace::Args),
    /// Read untouched memory, and say what that costs with each kind of zero page
    Zero(zero::Args),
}

/// Words that a program reads which is built when it is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Words {
    /// Its arguments: `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

impl Command {
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Boot(args) => return boot::run(args),
            Command::Record(args) => return record::run(args),
            Command::Bench(args) => bench::run(args),
            Command::Calibrate(args) => calibrate::run(args),
            Command::Check(args) => check::run(args),
            Command::Doctor(args) => doctor::run(args),
            Command::Fault(args) => fault::run(args),
            Command::Init(args) => init::run(args),
            Command::List(args) => list::run(args),
            Command::Predict(args) => predict::run(args),
            Command::Replay(args) => replay::run(args),
            Command::Teardown(args) => teardown::run(args),
            Command::Tour(args) => tour::run(args),
            Command::Trace(args) => trace::run(args),
            Command::Zero(args) => zero::run(args),
        }
        .map(|()| ExitCode::SUCCESS)
    }
}

/// Reads the command line, does what it says and returns the exit status: 0 for success, 1 for a check that
/// failed, 2 for a line or an input that cannot be understood; `boot` and `record` end as their program does.
pub fn main() -> ExitCode {
    let line = Line::parse();
    width::set_terminal(terminal::columns());
    match line.command.unwrap_or(Command::Tour(line.tour)).run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

/// Name and one line of description of every subcommand, as `--help` shows them; then those of the
/// subcommands that it has itself.
pub fn every() -> Vec<(String, String)> {
    use clap::CommandFactory;
    let about = |c: &clap::Command| c.get_about().map(ToString::to_string).unwrap_or_default();
    let described = |c: &clap::Command| {
        let name = c.get_name().to_string();
        let part = |part: &clap::Command| (format!("{name} {}", part.get_name()), about(part));
        let parts: Vec<_> = c.get_subcommands().map(part).collect();
        [(name.clone(), about(c))].into_iter().chain(parts)
    };
    Line::command().get_subcommands().flat_map(described).collect()
}

/// Whether `text`, starting with `interleaf`, is a line that is understood; a benchmark that it names must
/// exist.
pub fn understands(text: &str) -> bool {
    let Ok(line) = Line::try_parse_from(text.split_whitespace()) else { return false };
    match line.command {
        Some(Command::Bench(args)) => args.names_something(),
        _ => text.split_whitespace().next() == Some("interleaf"),
    }
}

#[cfg(test)]
mod tests;
