//! `interleaf list`: what there is to run.

use super::Failure;
use crate::show::Output;
use serde::Serialize;

/// The arguments of `interleaf list`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Text or JSON.
    #[command(flatten)]
    pub output: Output,
}

/// One thing that can be run.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// What it is called on the command line.
    pub name: String,
    /// What it does.
    pub about: String,
}

/// Everything that can be run, by kind.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// The subcommands.
    pub commands: Vec<Entry>,
}

/// Lists everything there is to run.
pub fn run(args: Args) -> Result<(), Failure> {
    let commands = super::every().into_iter().map(|(name, about)| Entry { name, about }).collect();
    args.output.emit(&Listing { commands }, |l| section("commands", &l.commands))
}

fn section(title: &str, entries: &[Entry]) -> String {
    let lines = entries.iter().map(|e| format!("  {:<24} {}\n", e.name, e.about));
    format!("{title}\n{}", lines.collect::<String>())
}
