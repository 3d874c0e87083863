//! The command line of `interleaf predict`.

use crate::conclusion::Bottleneck;
use crate::linux::{LinuxLock, Way};
use crate::point::Point;
use crate::report::Report;
use crate::subject::Subject;
use crate::trace::{RecordedProgram, Replay};
use crate::workload::{Named, WORKLOADS};
use clap::Parser;
use interleaf::space::Path;
use interleaf_lab::error::Failure;
use interleaf_lab::machine::sim::{self, Profile, Setting};
use interleaf_lab::os::on_all_cpus;
use interleaf_lab::os::terminal;
use interleaf_lab::show::{Output, OutputFile, Progress, width};
use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Predicts how a workload does on machines of up to 4 096 CPUs, in virtual time.
#[derive(Parser)]
#[command(name = "interleaf predict", version, about, max_term_width = 80)]
struct Args {
    #[arg(value_name = "WORKLOAD|TRACE", help = workload_help())]
    workload: String,
    /// Numbers of CPUs, 1 to 4096; of a trace, up to its threads [default: 1,2,16,48,192; of a trace: 1 and
    /// its threads]
    #[arg(long, value_delimiter = ',', value_name = "N,...",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    cpus: Vec<u32>,
    /// Which ways faults go, where there are any [default: speculative,locked]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PATH,...")]
    path: Vec<PathName>,
    /// What things cost: cascade-lake, ice-lake, epyc-milan, or a file that `interleaf calibrate` has written
    #[arg(long, default_value = "cascade-lake", value_name = "NAME|FILE")]
    profile: String,
    /// How CPUs fill the nodes
    #[arg(long, value_enum, default_value_t = Placement::Filled)]
    placement: Placement,
    /// Processes that run a trace, each in a space of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    copies: Option<u32>,
    /// How long reader_count works for each section, a tenth of it outside, ns [default: 1000]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u32).range(0..=1_000_000_000))]
    work: Option<u32>,
    /// Draws the gaps between accesses: the same seed, the same output
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write a chart of the rates, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Which way faults go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PathName {
    /// Without the space's lock, as far as that goes
    Speculative,
    /// The same with the mapping locked, as in Linux: a yardstick
    VmaLock,
    /// Always under the space's lock
    Locked,
    /// Under a model of Linux's mmap_lock: Linux before 6.4
    LinuxMmapLock,
    /// Under models of a semaphore of each mapping, and mmap_lock: Linux 6.4 to 6.14
    LinuxVmaRwsem,
    /// Under models of a count of each mapping, and mmap_lock: Linux from 6.15 on
    LinuxVmaCount,
}

/// How CPUs fill the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Placement {
    /// One node after the other
    Filled,
    /// All nodes alike, at least two
    Spread,
}

/// Reads the command line, does what it says and returns the exit status, as `interleaf_lab::cli::main` does.
pub fn main() -> ExitCode {
    let args = Args::parse();
    width::set_terminal(terminal::columns());
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let subject = args.subject()?;
    let (profile, setting) = args.setting()?;
    let (cpus, paths) = (args.cpus(&subject)?, args.paths(&subject)?);
    let is_linux = |way: &Way| matches!(way, Way::Linux(_));
    if !subject.has_linux_locks() && paths.iter().any(is_linux) {
        return Err(Failure::usage(
            "--path linux-*: Linux's locks are modelled for workloads of one process, not for traces",
        ));
    }
    let chart = args.svg.as_deref().map(|path| OutputFile::open("--svg", path)).transpose()?;
    let places: Vec<_> = paths.iter().flat_map(|&path| cpus.iter().map(move |&cpus| (path, cpus))).collect();
    let points = predict(args, &subject, setting, &places)?;
    let most_cpus = cpus.last().copied().unwrap_or(1);
    let report = Report {
        workload: subject.name(),
        about: subject.about(),
        operations: subject.operations(),
        profile: profile.about.clone(),
        guesses: profile.guesses().collect(),
        placement: if args.placement == Placement::Filled { "filled" } else { "spread" },
        seed: args.seed,
        line_limit: subject.line_limit(setting, most_cpus)?,
        bottlenecks: points.iter().filter_map(Bottleneck::of).collect(),
        points,
    };
    if let Some(chart) = chart {
        chart.write(&report.svg())?;
    }
    args.output.emit(&report, Report::text)
}

/// A point for each path and number of CPUs.
fn predict(
    args: &Args,
    subject: &Subject,
    setting: Setting,
    places: &[(Way, u32)],
) -> Result<Vec<Point>, Failure> {
    let runs = places.iter().flat_map(|&place| Point::settings(setting).map(|setting| (place, setting)));
    let progress = Progress::new(args.output, places.len() * Point::RUNS);
    let samples = on_all_cpus(runs.collect(), |((way, cpus), setting)| {
        progress.step(&format!("{}, {cpus} CPUs", way.name()));
        subject.run(setting, way, cpus)
    })?;
    progress.done();
    let point = |(&(way, cpus), runs): (&(Way, u32), _)| Point::of(way, cpus, runs);
    Ok(places.iter().zip(samples.chunks(Point::RUNS)).map(point).collect())
}

impl Args {
    fn setting(&self) -> Result<(Profile, Setting), Failure> {
        let profile = read_profile(&self.profile)?;
        let placement = match self.placement {
            Placement::Filled => sim::Placement::Filled,
            Placement::Spread => sim::Placement::Spread,
        };
        let setting = Setting { placement, seed: self.seed, ..Setting::new(profile.costs) };
        Ok((profile, setting))
    }

    /// The workload of this name, or else the trace in this file.
    fn subject(&self) -> Result<Subject, Failure> {
        let (named, file) = (Named::find(&self.workload), FilePath::new(&self.workload));
        match named {
            Ok(_) if self.copies.is_some() => {
                Err(Failure::usage("--copies is for traces: a workload runs on as many CPUs as --cpus says"))
            }
            Err(_) if file.is_file() && self.work.is_some() => {
                Err(Failure::usage("--work is for reader_count: a trace has its own times"))
            }
            Err(_) if file.is_file() => {
                let program = Arc::new(RecordedProgram::read(file)?);
                Ok(Subject::Trace(Replay { program, copies: self.copies.unwrap_or(1) }))
            }
            named => {
                let with_work = |named: Named| match self.work {
                    Some(ns) => named.with_work(u64::from(ns) * 1000),
                    None => Ok(named),
                };
                named.and_then(with_work).map(Subject::Workload)
            }
        }
    }

    /// Ascending, each once.
    fn cpus(&self, subject: &Subject) -> Result<Vec<u32>, Failure> {
        let mut cpus = match (&self.cpus[..], subject) {
            ([], Subject::Workload(_)) => vec![1, 2, 16, 48, 192],
            ([], Subject::Trace(replay)) => vec![1, replay.threads().min(4096)],
            (cpus, _) => cpus.to_vec(),
        };
        cpus.sort_unstable();
        cpus.dedup();
        match subject {
            Subject::Trace(replay) if cpus.last().is_some_and(|most| *most > replay.threads()) => {
                let (threads, copies) = (replay.program.threads, replay.copies);
                Err(Failure::usage(format!(
                    "--cpus {}: {copies} times {threads} threads are in {}: a thread stays on one CPU; \
                     --copies N runs N processes",
                    cpus.last().unwrap_or(&0),
                    self.workload
                )))
            }
            _ => Ok(cpus),
        }
    }

    /// In the order of the line, each once. Without faults all paths are one.
    fn paths(&self, subject: &Subject) -> Result<Vec<Way>, Failure> {
        const BOTH: [Way; 2] = [Way::Library(Path::Speculative), Way::Library(Path::Locked)];
        match (self.path.is_empty(), subject.has_faults()) {
            (true, true) => return Ok(BOTH.into()),
            (true, false) => return Ok(BOTH[..1].into()),
            (false, true) => {}
            (false, false) => {
                return Err(Failure::usage(format!("--path is for faults: {} has none", subject.name())));
            }
        }
        let first = |(at, path): &(usize, &PathName)| !self.path[..*at].contains(path);
        let path = |(_, path): (usize, &PathName)| match path {
            PathName::Speculative => Way::Library(Path::Speculative),
            PathName::VmaLock => Way::Library(Path::VmaLock),
            PathName::Locked => Way::Library(Path::Locked),
            PathName::LinuxMmapLock => Way::Linux(LinuxLock::Mmap),
            PathName::LinuxVmaRwsem => Way::Linux(LinuxLock::VmaRwsem),
            PathName::LinuxVmaCount => Way::Linux(LinuxLock::VmaCount),
        };
        Ok(self.path.iter().enumerate().filter(first).map(path).collect())
    }
}

/// What may be predicted.
fn workload_help() -> String {
    let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
    format!("What is predicted: {}, or a trace that `interleaf record` has written", names.join(", "))
}

/// A profile by its name, or from a file.
fn read_profile(name: &str) -> Result<Profile, Failure> {
    if let Some(profile) = Profile::built_in(name) {
        return Ok(profile);
    }
    let known = Profile::names().collect::<Vec<_>>().join(", ");
    let text = fs::read_to_string(name)
        .map_err(|error| Failure::usage(format!("--profile {name}: {error}; one of {known}, or a file")))?;
    Profile::parse(&text).map_err(|wrong| Failure::usage(format!("--profile {name}: {wrong}")))
}
