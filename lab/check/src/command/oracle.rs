//! `interleaf check oracle`: random calls with huge pages, the host's Linux beside the model and the library.

use crate::huge::host::HostSetting;
use crate::huge::{Beside, BesideCounts, Kind};
use interleaf::vma::MthpPolicies;
use interleaf_lab::cli::huge::{Huge, sizes_in};
use interleaf_lab::error::Failure;
use interleaf_lab::show::{Output, Progress};
use serde::Serialize;
use std::time::Instant;

/// The arguments of `interleaf check oracle`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// When memory gets huge pages; the host must have set the same
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = Huge::Madvise)]
    huge: Huge,
    /// When memory gets mTHP folios: 64K,1M=madvise, or all; the host must have set the same
    #[arg(long, value_name = "SIZES", value_parser = sizes_in)]
    huge_sizes: Option<MthpPolicies>,
    /// Sets the host's policy for the run, for all of its processes; only root may
    #[arg(long)]
    set_host: bool,
    /// How many sequences
    #[arg(long, value_name = "N", default_value_t = 1000)]
    sequences: u64,
    /// The seed of the first
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Most calls of a sequence
    #[arg(long, value_name = "N", default_value_t = 24)]
    longest: u64,
    /// Steps of up to four processes that fork, not calls of one
    #[arg(long)]
    processes: bool,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Most per cent of the sequences that the host's supply of free blocks may decide.
const MOST_DECIDED: f64 = 3.0;

/// What was played. The field names are the JSON's and stay.
#[derive(Debug, Serialize)]
struct Asked {
    huge: &'static str,
    #[serde(flatten)]
    counts: BesideCounts,
    seconds: f64,
}

/// Plays, and fails with the first difference that nothing explains.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (policy, sizes) = (args.huge.policy(), args.huge_sizes.unwrap_or_default());
    if args.sequences == 0 || args.longest == 0 {
        return Err(Failure::usage("--sequences and --longest: at least 1"));
    }
    let end = args.seed.checked_add(args.sequences);
    let end =
        end.ok_or_else(|| Failure::usage(format!("--seed {}: seeds end at {}", args.seed, u64::MAX)))?;
    let no_leave = |error: std::io::Error| Failure::usage(format!("--set-host: {error}"));
    let _set = if args.set_host { Some(HostSetting::change(policy, sizes).map_err(no_leave)?) } else { None };
    let mut beside = Beside::new(policy, sizes).map_err(|lacking| Failure::usage(lacking.to_string()))?;
    let kind = if args.processes { Kind::Processes } else { Kind::Calls };
    let (start, mut counts) = (Instant::now(), BesideCounts::default());
    let progress = Progress::new(args.output, args.sequences as usize);
    for seed in args.seed..end {
        progress.step(&format!("seed {seed}"));
        beside.play(kind, seed, args.longest, &mut counts).map_err(Failure::check)?;
    }
    progress.done();
    let share = counts.supply_percent();
    if share > MOST_DECIDED {
        let decided = format!("{share:.1} % of the sequences were decided by the host's free blocks");
        return Err(Failure::check(format!("{decided}, more than {MOST_DECIDED} %")));
    }
    let huge = crate::huge::host::word_of(policy);
    args.output.emit(&Asked { huge, counts, seconds: start.elapsed().as_secs_f64() }, text)
}

fn text(asked: &Asked) -> String {
    let Asked { huge, counts, seconds } = asked;
    let BesideCounts { sequences, same, explained, decided_by_supply, beside_khugepaged } = counts;
    let mut text = format!(
        "{sequences} sequences with huge pages {huge} in {seconds:.0} s: no unexplained difference\n\
         {same} the same on Linux and the library; {decided_by_supply} decided by the host's free blocks \
         ({:.2} %), {beside_khugepaged} beside khugepaged\n",
        counts.supply_percent()
    );
    for (rule, times) in explained {
        text += &format!("{times} in which {rule} makes a difference\n");
    }
    text
}
