//! `interleaf doctor`: what this machine lacks, and how to get it.

mod findings;

use crate::error::Failure;
use crate::show::Output;
use findings::{Finding, State, examine};
use serde::Serialize;

/// The arguments of `interleaf doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Text or JSON.
    #[command(flatten)]
    pub output: Output,
}

/// What was found. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Examination {
    /// One for each thing looked at.
    pub findings: Vec<Finding>,
}

/// Examines the machine.
pub fn run(args: Args) -> Result<(), Failure> {
    args.output.emit(&Examination { findings: examine() }, |e| e.findings.iter().map(text).collect())
}

fn text(finding: &Finding) -> String {
    let mark = if finding.state == State::Good { "ok   " } else { "lacks" };
    let mut text = format!("{mark}  {:<12} {}\n", finding.topic, finding.found);
    if finding.state == State::Lacking {
        text += &format!("       {:<12} needed for: {}\n", "", finding.needed_for);
        text += &format!("       {:<12} to get it:  {}\n", "", finding.remedy);
    }
    text
}
