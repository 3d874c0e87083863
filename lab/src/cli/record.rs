//! `interleaf record -- CMD`: what a real program does to its memory.

use crate::error::Failure;
use crate::os::end_requests::EndRequests;
use crate::os::pending_file::PendingFile;
use crate::os::process::{self, ChildOutput, HeldChild, monotonic_ns};
use crate::show::Output;
use crate::trace::dump::status_text;
use crate::trace::record::{self, Options, Progress, Recording, Refusal};
use crate::trace::{Account, Extent};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a trace says of a program, for a user that passes it on.
const REVEALS: &str = "a trace names the command line, the programs and the files that were mapped, and says \
which page was touched when; it has no contents of memory, and of the environment only its size";

/// The arguments of `interleaf record`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = format!("Ends as the command does: its exit status, or 128 + the signal.\n\
Before you give a trace away: {REVEALS}."))]
pub struct Args {
    /// Where the trace goes
    #[arg(short, long, default_value = "interleaf.trace")]
    output: PathBuf,
    /// Record what an ordinary user can: faults of user mode without their access, calls by slow stops
    #[arg(long)]
    user: bool,
    /// Size of the ring buffer of each CPU, MiB, a power of two
    #[arg(long, default_value_t = 16, value_parser = power_of_two)]
    ring_mib: usize,
    /// Also run the command N times without and N times with recording, in turns, and print the ratio of
    /// medians
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "5", value_parser = at_least_one)]
    measure_slowdown: Option<usize>,
    /// Text or JSON; with JSON the command's own output goes to stderr.
    #[command(flatten)]
    format: Output,
    /// The command and its arguments
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

fn power_of_two(text: &str) -> Result<usize, String> {
    let size = text.parse::<usize>().ok().filter(|n| n.is_power_of_two() && *n <= 1024);
    size.ok_or_else(|| "a power of two from 1 to 1024".into())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse::<usize>().ok().filter(|&runs| runs > 0).ok_or_else(|| "a number from 1 on".into())
}

/// What is said of a recording.
#[derive(Clone, Debug, Serialize)]
struct Report {
    file: PathBuf,
    bytes: u64,
    partial: bool,
    events: u64,
    faults: u64,
    calls: u64,
    processes: usize,
    duration_ns: u64,
    status: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_by: Option<i32>,
    account: Account,
    mounted_tracefs: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    slowdown: Option<Slowdown>,
}

/// Medians of runs without and with recording.
#[derive(Clone, Copy, Debug, Serialize)]
struct Slowdown {
    runs: usize,
    bare_ns: u64,
    recorded_ns: u64,
    ratio: f64,
}

/// Records a command, and ends as it did.
///
/// # Errors
/// There is no recording.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let extent = if args.user { Extent::Partial } else { Extent::Whole };
    let output = if args.format.json { ChildOutput::OnStderr } else { ChildOutput::Inherited };
    let ring_bytes = args.ring_mib << 20;
    let options = Options { command: args.command.clone(), extent, ring_bytes, output };
    let slowdown = args.measure_slowdown.map(|runs| slowdown(&options, runs)).transpose()?;
    let recording = record_to(&options, &args.output, args.format)?;
    let report = report(&args.output, recording, slowdown)?;
    args.format.emit(&report, text)?;
    Ok(exit_code(report.status))
}

/// The exit status for a wait status, as shells have it.
fn exit_code(status: i32) -> ExitCode {
    match status & 0x7f {
        0 => ExitCode::from((status >> 8) as u8),
        signal => ExitCode::from(128 + signal as u8),
    }
}

/// Records into a file that is named `path` only when the recording is whole.
fn record_to(options: &Options, path: &Path, format: Output) -> Result<Recording, Failure> {
    let refuse = |error: io::Error| Failure::usage(of_file(path, error).to_string());
    let (pending, file) = PendingFile::create(path).map_err(refuse)?;
    // After the file, whose removal on a signal these take over.
    let requests = EndRequests::take()?;
    let bar = spinner(format);
    let to = BufWriter::new(TraceFile { path: path.to_path_buf(), file });
    let recorded = record::record_until(options, Some(&requests), to, progress(&bar)).map_err(failure);
    drop(requests);
    bar.finish_and_clear();
    let recording = recorded?;
    pending.commit().map_err(refuse)?;
    Ok(recording)
}

/// The file that a recording is written to, whose errors name it.
struct TraceFile {
    path: PathBuf,
    file: File,
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| of_file(&self.path, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| of_file(&self.path, error))
    }
}

fn of_file(path: &Path, error: io::Error) -> io::Error {
    // Not of what is tried again.
    match error.kind() {
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, format!("{}: {error}", path.display())),
    }
}

fn failure(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Lost(_) => Failure::check(refusal.to_string()),
        _ => Failure::usage(refusal.to_string()),
    }
}

fn spinner(format: Output) -> ProgressBar {
    if !format.may_draw_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} recording: {human_pos} events, {elapsed}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

/// Draws nothing in the first second: short recordings stay quiet.
fn progress(bar: &ProgressBar) -> Progress<'_> {
    Box::new(move |events| {
        if bar.elapsed().as_secs() >= 1 {
            bar.set_position(events);
        }
    })
}

/// Runs the command in turns without and with recording; what it prints, it prints each time.
fn slowdown(options: &Options, runs: usize) -> Result<Slowdown, Failure> {
    let (mut bare, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        bare.push(bare_run(options)?);
        let requests = EndRequests::take()?;
        let recording = record::record_until(options, Some(&requests), io::sink(), Box::new(|_| {}));
        let recording = recording.map_err(failure)?;
        if let Some(signal) = recording.footer.stopped_by {
            return Err(Failure::usage(format!("signal {signal} ended the runs before the recording")));
        }
        recorded.push(recording.footer.duration_ns);
    }
    let (bare_ns, recorded_ns) = (median(bare), median(recorded));
    Ok(Slowdown { runs, bare_ns, recorded_ns, ratio: recorded_ns as f64 / bare_ns.max(1) as f64 })
}

fn bare_run(options: &Options) -> Result<u64, Failure> {
    let mut child = HeldChild::spawn(&options.command, options.output)?;
    let start = monotonic_ns();
    child.release()?;
    process::wait_for(child.pid())?;
    Ok(monotonic_ns() - start)
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

fn report(path: &Path, recording: Recording, slowdown: Option<Slowdown>) -> Result<Report, Failure> {
    let Recording { header, footer, mounted_tracefs } = recording;
    Ok(Report {
        file: path.to_path_buf(),
        bytes: fs::metadata(path)?.len(),
        partial: header.extent == Extent::Partial,
        events: footer.events,
        faults: footer.faults,
        calls: footer.calls,
        processes: footer.processes.len(),
        duration_ns: footer.duration_ns,
        status: footer.status,
        stopped_by: footer.stopped_by,
        account: footer.account,
        mounted_tracefs,
        slowdown,
    })
}

fn text(report: &Report) -> String {
    let Report { events, faults, calls, processes, bytes, .. } = report;
    let seconds = report.duration_ns as f64 / 1e9;
    let partial = if report.partial { " (PARTIAL: no kernel mode, access unknown)" } else { "" };
    let mut lines = vec![
        format!("{}: {bytes} bytes{partial}", report.file.display()),
        format!(
            "{events} events in {seconds:.3} s: {faults} faults, {calls} calls, {processes} processes; lost 0"
        ),
        format!("the command ended with {}", status_text(report.status)),
        account_text(report),
    ];
    if let Some(signal) = report.stopped_by {
        lines.push(format!("signal {signal} ended the recording: the trace is what was done until then"));
    }
    if let Some(Slowdown { runs, bare_ns, recorded_ns, ratio }) = report.slowdown {
        let (bare, recorded) = (bare_ns as f64 / 1e9, recorded_ns as f64 / 1e9);
        lines.push(format!(
            "slowdown {ratio:.3} ({bare:.3} s bare, {recorded:.3} s recorded, medians of {runs} runs each)"
        ));
    }
    if report.mounted_tracefs {
        lines.push("tracefs was mounted at /sys/kernel/tracing for this, and stays mounted".to_string());
    }
    lines.push(REVEALS.to_string());
    lines.join("\n")
}

/// The kernel's count of faults as a sum of what was recorded and what was not.
fn account_text(report: &Report) -> String {
    let Account { counted, recorded, signalled, refused, filled, filled_otherwise, unexplained, .. } =
        report.account;
    let rest = match unexplained {
        0 => String::new(),
        some => format!("; unexplained {some}"),
    };
    if report.partial {
        return format!(
            "minflt + majflt {counted} = {recorded} recorded - {signalled} signalled + {filled} not \
             recorded, in kernel mode or filled without an exception{rest}"
        );
    }
    let asked = filled.saturating_sub(filled_otherwise);
    let otherwise = match filled_otherwise {
        0 => String::new(),
        pages => format!(
            " + {pages} filled by the kernel without an exception (futexes, direct I/O, pinned pages)"
        ),
    };
    format!(
        "minflt + majflt {counted} = {recorded} recorded - {signalled} signalled - {refused} refused in the \
         kernel + {asked} filled{otherwise}{rest}"
    )
}

#[cfg(test)]
#[path = "tests/record.rs"]
mod tests;
