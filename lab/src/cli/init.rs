//! `interleaf init`: boots the frame table of a large machine, for real, and says how long it took.

use crate::error::Failure;
use crate::measure::bench::Options;
use crate::measure::init::boot::{InitMode, RecordWindows};
use crate::measure::init::report::{Report, Row, size};
use crate::measure::init::{Boot, BootMachine, Holes, MemoryMap};
use crate::os::host_info::HostInfo;
use crate::show::chart::{self, Series};
use crate::show::{Output, Progress};
use std::fs;
use std::path::PathBuf;

/// The arguments of `interleaf init`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How much memory the machine has: a number with M, G or T
    #[arg(long, value_name = "SIZE", default_value = "64G")]
    memory: String,
    /// On how many nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: u32,
    /// With how many threads, one row for each number; 1 to as many as there are CPUs, if nothing is said
    #[arg(long, value_name = "N", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Holes in memory, at any frame, as this seed draws them
    #[arg(long, value_name = "SEED")]
    holes: Option<u64>,
    /// How often each number of threads is run
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    /// On a machine without record windows: all records lie on one node
    #[arg(long)]
    no_window: bool,
    /// Also write the curve, time by threads, as an SVG file into this directory
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Least and most memory of a machine.
const MEMORY: std::ops::RangeInclusive<u64> = 64 << 20..=16 << 40;
/// Most nodes with memory.
const NODES: u32 = 64;

/// Boots as often as was asked for.
pub fn run(args: Args) -> Result<(), Failure> {
    let host_cpus = Options::full().cpus;
    let map = args.map()?;
    let threads = args.numbers_of_threads(host_cpus.len())?;
    if !(1..=1000).contains(&args.runs) {
        return Err(Failure::usage(format!("--runs {}: 1 to 1000", args.runs)));
    }
    let most = threads.iter().copied().max().unwrap_or(1);
    let setting = HostInfo::of_this_machine();
    let _pinned = crate::os::affinity::pin(host_cpus[0]).ok();
    let windows = if args.no_window { RecordWindows::Lacking } else { RecordWindows::Offered };
    let machine = BootMachine::with_windows(&map, &host_cpus[..most], windows)?;
    let progress = Progress::new(args.output, (threads.len() + 1) * args.runs);
    let mut rows = Vec::new();
    for threads in [0].into_iter().chain(threads) {
        let boots = boots(&machine, threads, args.runs, &progress)?;
        rows.push(Row::of(threads, host_cpus.len(), &map, &boots));
    }
    progress.done();
    let report = Report::of(setting, &map, map.regions().len(), rows);
    if let Some(directory) = &args.svg {
        write_curve(directory, &report)?;
    }
    args.output.emit(&report, Report::text)
}

fn boots(
    machine: &BootMachine,
    threads: usize,
    runs: usize,
    progress: &Progress,
) -> Result<Vec<Boot>, Failure> {
    let when = if threads == 0 { InitMode::First } else { InitMode::Job(threads) };
    let one = |run| {
        progress.step(&format!("{threads} threads"));
        machine.with_booted(when, |memory, boot| {
            // The frames are counted once for each row: it takes longer than a boot.
            let counted = if run == 0 { memory.check().map(|_| ()) } else { Ok(()) };
            counted.map_err(Failure::of).map(|()| boot)
        })?
    };
    (0..runs).map(one).collect()
}

impl Args {
    fn map(&self) -> Result<MemoryMap, Failure> {
        let bytes = bytes_of(&self.memory).filter(|bytes| MEMORY.contains(bytes));
        let wrong = || Failure::usage(format!("--memory {}: a size from 64M to 16T", self.memory));
        let frames = bytes.ok_or_else(wrong)? / 4096;
        let most = NODES.min((frames >> 13) as u32);
        if !(1..=most).contains(&self.nodes) {
            return Err(Failure::usage(format!("--nodes {}: 1 to {most} with {}", self.nodes, self.memory)));
        }
        let holes = self.holes.map_or(Holes::None, Holes::Drawn);
        let map = MemoryMap { frames, nodes: self.nodes, holes };
        world_fits(&map)?;
        Ok(map)
    }

    fn numbers_of_threads(&self, lent: usize) -> Result<Vec<usize>, Failure> {
        let wrong = |n: &&usize| !(1..=lent).contains(*n);
        match self.threads.iter().find(wrong) {
            Some(n) => Err(Failure::usage(format!("--threads {n}: this machine lends 1 to {lent}"))),
            None if self.threads.is_empty() => Ok((1..=lent).collect()),
            None => Ok(self.threads.clone()),
        }
    }
}

/// Whether the host has memory for the records.
pub fn world_fits(map: &MemoryMap) -> Result<(), Failure> {
    let (records, lent) = (map.frames * 32, crate::os::memory::available_bytes().unwrap_or(u64::MAX) / 2);
    if records <= lent {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--memory: the records take {}, and half of this machine's free memory is {}",
        size(records),
        size(lent)
    )))
}

/// `64G` as bytes.
pub(super) fn bytes_of(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let shift = match unit {
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn write_curve(directory: &PathBuf, report: &Report) -> Result<(), Failure> {
    let refuse = |error| Failure::usage(format!("{}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(refuse)?;
    let title = format!("frame table of {}", size(report.memory_bytes));
    let svg = chart::svg(&title, "threads", "ms", &Series::only(&report.curve()));
    fs::write(directory.join("init.svg"), svg).map_err(refuse)
}

#[cfg(test)]
#[path = "tests/init.rs"]
mod tests;
