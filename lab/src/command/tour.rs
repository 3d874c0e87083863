//! `interleaf tour`: every experiment, small, in under a minute, without privilege.

use super::Failure;
use crate::bench::setting::Setting;
use crate::show::Output;
use serde::Serialize;

/// The arguments of `interleaf tour`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Text or JSON.
    #[command(flatten)]
    pub output: Output,
    /// The seed of everything that is drawn by chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// What the tour says.
#[derive(Clone, Debug, Serialize)]
pub struct Tour {
    /// The machine it ran on.
    pub setting: Setting,
    /// The seed it ran with.
    pub seed: u64,
}

/// Walks through every section.
pub fn run(args: Args) -> Result<(), Failure> {
    let tour = Tour { setting: Setting::of_this_machine(), seed: args.seed };
    args.output.emit(&tour, |t| {
        format!("machine  {}\nseed     {}\nnext     interleaf list", t.setting.line(), t.seed)
    })
}
