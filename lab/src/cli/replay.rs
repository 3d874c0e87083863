//! `interleaf replay FILE...`: recorded programs run again on our address space, compared with Linux.

use super::huge::Huge;
use super::init::bytes_of;
use crate::error::Failure;
use crate::replay::{Conclusion, Memory, Replay, Report, TimedReplay};
use crate::show::{Output, Progress};
use crate::trace::TraceReader;
use interleaf::space;
use serde::Serialize;
use std::path::PathBuf;

/// The arguments of `interleaf replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Traces that `interleaf record` made
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Which way page faults go
    #[arg(long, value_enum, default_value_t = Way::Speculative)]
    path: Way,
    /// When memory gets huge pages; as on the recorded machine, if nothing is said
    #[arg(long, value_enum)]
    huge: Option<Huge>,
    /// How much memory a replay may take: a number with M, G or T; as much as this machine has, if nothing is
    /// said
    #[arg(long, value_parser = memory, value_name = "SIZE")]
    memory: Option<Memory>,
    /// Fail if a difference from Linux is not explained: always so, said here for scripts
    #[arg(long)]
    check: bool,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Which way page faults go.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Way {
    /// Without the space's lock where that works
    Speculative,
    /// The same with the mapping locked, as in Linux: a yardstick
    VmaLock,
    /// Always under the space's lock, shared
    Locked,
}

impl Way {
    fn path(self) -> space::Path {
        match self {
            Way::Speculative => space::Path::Speculative,
            Way::VmaLock => space::Path::VmaLock,
            Way::Locked => space::Path::Locked,
        }
    }
}

fn memory(text: &str) -> Result<Memory, String> {
    bytes_of(text).map(Memory::allowed).ok_or_else(|| "a size like 800M, 64G or 1T".into())
}

/// What the replays say. The field names are the JSON's and stay.
#[derive(Debug, Serialize)]
struct Reports {
    /// Which way page faults went.
    path: String,
    /// One for each trace.
    traces: Vec<Report>,
    /// Differences that are not explained, all traces together.
    unexplained: u64,
}

/// Number of pairs of replay and zeroing: a rough figure; `interleaf bench replay` measures.
const GLANCES: usize = 5;

/// Replays each trace.
pub fn run(args: Args) -> Result<(), Failure> {
    let path = args.path.path().name().to_string();
    let mut all = Reports { path, traces: Vec::new(), unexplained: 0 };
    for file in &args.files {
        let report = one(file, &args)?;
        all.unexplained += report.unexplained;
        all.traces.push(report);
    }
    args.output.emit(&all, |all| all.traces.iter().map(|report| report.text() + "\n").collect())?;
    match all.unexplained {
        0 => Ok(()),
        count => Err(Failure::check(format!("{count} differences from Linux are not explained"))),
    }
}

fn one(file: &std::path::Path, args: &Args) -> Result<Report, Failure> {
    let refuse = |what: String| Failure::usage(format!("{}: {what}", file.display()));
    let reader = TraceReader::open(file).map_err(|damage| refuse(damage.to_string()))?;
    let memory = args.memory.unwrap_or_else(Memory::of_this_machine);
    let replay = Replay::read_within(reader, memory).map_err(refuse)?;
    let replay = match args.huge {
        Some(huge) => replay.with_huge_pages(huge.policy()).map_err(refuse)?,
        None => replay,
    };
    let progress = Progress::new(args.output, replay.progress_steps());
    let path = args.path.path();
    let mut report = replay.check(path, |program| progress.step(program)).map_err(refuse)?;
    let timed = TimedReplay::with(&replay, path, |ready| (ready.pairs(GLANCES), ready.times()));
    let (timed, times) = timed.map_err(refuse)?;
    (report.timed, report.times) = (Some(timed), Some(times));
    report.conclusion = Some(Conclusion::of(replay));
    progress.done();
    report.file = file.display().to_string();
    Ok(report)
}
