//! `interleaf record -- CMD`: what a real program does to its memory.

use crate::error::Failure;
use crate::os::process::{self, HeldChild, monotonic_ns};
use crate::show::Output;
use crate::trace::dump::status_text;
use crate::trace::record::{self, Options, Progress, Recording, Refusal};
use crate::trace::{Account, Extent};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// The arguments of `interleaf record`.
#[derive(Clone, Debug, clap::Args)]
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
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "5")]
    measure_slowdown: Option<usize>,
    /// Text or JSON.
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
    account: Account,
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

/// Records a command.
pub fn run(args: Args) -> Result<(), Failure> {
    process::ignore_interrupts();
    let extent = if args.user { Extent::Partial } else { Extent::Whole };
    let options = Options { command: args.command.clone(), extent, ring_bytes: args.ring_mib << 20 };
    let slowdown = args.measure_slowdown.map(|runs| slowdown(&options, runs)).transpose()?;
    let recording = record_to(&options, &args.output, args.format)?;
    let report = report(&args.output, recording, slowdown)?;
    args.format.emit(&report, text)
}

/// Records into a file beside `path`, which takes its name only when the recording is whole.
fn record_to(options: &Options, path: &Path, format: Output) -> Result<Recording, Failure> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let file = File::create(&partial).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
    let bar = spinner(format);
    let recorded = record::record(options, BufWriter::new(file), progress(&bar)).map_err(failure);
    bar.finish_and_clear();
    match recorded {
        Ok(recording) => {
            fs::rename(&partial, path)?;
            Ok(recording)
        }
        Err(failure) => {
            // The failure is reported; a file that cannot be removed changes nothing about it.
            let _ = fs::remove_file(&partial);
            Err(failure)
        }
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
    for _ in 0..runs.max(1) {
        bare.push(bare_run(options)?);
        let recording = record::record(options, io::sink(), Box::new(|_| {})).map_err(failure)?;
        recorded.push(recording.footer.duration_ns);
    }
    let (bare_ns, recorded_ns) = (median(bare), median(recorded));
    Ok(Slowdown {
        runs: runs.max(1),
        bare_ns,
        recorded_ns,
        ratio: recorded_ns as f64 / bare_ns.max(1) as f64,
    })
}

fn bare_run(options: &Options) -> Result<u64, Failure> {
    let mut child = HeldChild::spawn(&options.command)?;
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
    let Recording { header, footer } = recording;
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
        account: footer.account,
        slowdown,
    })
}

fn text(report: &Report) -> String {
    let Report { events, faults, calls, processes, bytes, account, .. } = report;
    let seconds = report.duration_ns as f64 / 1e9;
    let partial = if report.partial { " (PARTIAL: no kernel mode, access unknown)" } else { "" };
    let mut lines = vec![
        format!("{}: {bytes} bytes{partial}", report.file.display()),
        format!(
            "{events} events in {seconds:.3} s: {faults} faults, {calls} calls, {processes} processes; lost 0"
        ),
        format!("the command ended with {}", status_text(report.status)),
        format!(
            "minflt + majflt {} = {} recorded - {} signalled - {} refused in the kernel \
             + {} filled; unexplained {}",
            account.counted,
            account.recorded,
            account.signalled,
            account.refused,
            account.filled,
            account.unexplained
        ),
    ];
    if let Some(Slowdown { runs, bare_ns, recorded_ns, ratio }) = report.slowdown {
        let (bare, recorded) = (bare_ns as f64 / 1e9, recorded_ns as f64 / 1e9);
        lines.push(format!(
            "slowdown {ratio:.3} ({recorded:.3} s to {bare:.3} s, medians of {runs} runs each)"
        ));
    }
    lines.join("\n")
}
