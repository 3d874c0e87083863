//! `interleaf tour`: every experiment, small, in under a minute, without privilege.

use crate::error::Failure;
use crate::measure::bench::Options;
use crate::measure::tour::{NEXT, SECTIONS, Shown};
use crate::os::host_info::HostInfo;
use crate::show::{Output, say};
use serde::Serialize;
use std::time::Instant;

/// The arguments of `interleaf tour`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Smallest sizes: shows that everything works, not how fast
    #[arg(long)]
    pub small: bool,
    /// The seed of everything that is drawn by chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Text or JSON.
    #[command(flatten)]
    pub output: Output,
}

/// What the tour says. The field names are the JSON's and stay.
#[derive(Clone, Debug, Serialize)]
pub struct Tour {
    /// The machine it ran on.
    pub setting: HostInfo,
    /// The seed it ran with.
    pub seed: u64,
    /// What was shown.
    pub sections: Vec<Shown>,
    /// What to try next.
    pub next: Vec<&'static str>,
}

/// Walks through every section; text appears section by section.
pub fn run(args: Args) -> Result<(), Failure> {
    let size = if args.small { Options::small() } else { Options::full() };
    let options = Options { seed: args.seed, ..size };
    let start = Instant::now();
    let mut tour = Tour {
        setting: HostInfo::of_this_machine(),
        seed: args.seed,
        sections: Vec::new(),
        next: NEXT.iter().map(|n| n.0).collect(),
    };
    if !args.output.json {
        say(&header(&tour))?;
    }
    for (index, section) in SECTIONS.iter().enumerate() {
        let shown = section.show(&options)?;
        if !args.output.json {
            say(&format!("\n{}", shown.text(index + 1, SECTIONS.len())))?;
        }
        tour.sections.push(shown);
    }
    args.output.emit(&tour, |_| footer(start))
}

fn header(tour: &Tour) -> String {
    let build =
        if cfg!(debug_assertions) { "\nbuild    debug: figures mean little, use --release" } else { "" };
    format!("machine  {}\nseed     {}{build}", tour.setting.line(), tour.seed)
}

fn footer(start: Instant) -> String {
    let next: String = NEXT.iter().map(|(command, about)| format!("  {command:<20} {about}\n")).collect();
    let seconds = start.elapsed().as_secs_f64();
    format!("\nthat was all, in {seconds:.0} s; next (interleaf is `cargo run --release --`)\n{next}")
}
