//! `interleaf teardown`: unmaps a large guest's memory, and says which CPUs that interrupted.

use super::init::bytes_of;
use crate::error::Failure;
use crate::measure::Options;
use crate::measure::teardown::{Report, Row, Unmapping, Way};
use crate::os::host_info::HostInfo;
use crate::show::{Output, Progress};

/// The arguments of `interleaf teardown`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How much memory the guest has, in huge pages: a number with M, G or T
    #[arg(long, value_name = "SIZE", default_value = "496G")]
    memory: String,
    /// How often each way is run
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Least and most memory.
const MEMORY: std::ops::RangeInclusive<u64> = 2 << 20..=16 << 40;
const HUGE: u64 = 2 << 20;

/// Unmaps as often as was asked for.
pub fn run(args: Args) -> Result<(), Failure> {
    let bytes = bytes_of(&args.memory).filter(|bytes| MEMORY.contains(bytes) && bytes.is_multiple_of(HUGE));
    let wrong = || Failure::usage(format!("--memory {}: an even number of M, from 2M to 16T", args.memory));
    let entries = bytes.ok_or_else(wrong)? / HUGE;
    if !(1..=1000).contains(&args.runs) {
        return Err(Failure::usage(format!("--runs {}: 1 to 1000", args.runs)));
    }
    let options = Options::full();
    let setting = HostInfo::of_this_machine();
    let unmapping = Unmapping::new(&options, entries);
    let progress = Progress::new(args.output, Way::ALL.len() * args.runs);
    let mut rows = Vec::new();
    for way in Way::ALL {
        let mut runs = Vec::new();
        for _ in 0..args.runs {
            progress.step(way.name());
            runs.push(unmapping.run(way)?);
        }
        rows.push(Row::of(way, entries, &runs));
    }
    progress.done();
    let report =
        Report { setting, memory_bytes: entries * HUGE, entries, cpus: options.cpus.len().min(2), rows };
    args.output.emit(&report, Report::text)
}
