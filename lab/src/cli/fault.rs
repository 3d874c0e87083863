//! `interleaf fault WORKLOAD`: runs a workload of page faults, counts them, and says where they went.

use super::huge::{Huge, sizes_in};
use crate::error::Failure;
use crate::measure::bench::Options;
use crate::measure::fault::report::{Report, Run, sizes_name};
use crate::measure::fault::{Length, Setup, Timing, Workload, WorkloadMachine, find};
use crate::os::host_info::HostInfo;
use crate::show::Output;
use indicatif::{ProgressBar, ProgressStyle};
use interleaf::space::Path;
use interleaf::vma::MthpPolicies;
use std::time::{Duration, Instant};

/// The arguments of `interleaf fault`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to run: page_fault1, page_fault2, page_fault3, pft or mapper
    workload: String,
    /// Which way faults go
    #[arg(long, value_enum, default_value_t = Paths::Both)]
    path: Paths,
    /// When memory gets huge pages
    #[arg(long, value_enum, default_value_t = Huge::Never)]
    huge: Huge,
    /// When memory gets mTHP folios: 64K,1M=madvise, or all
    #[arg(long, value_name = "SIZES", value_parser = sizes_in)]
    huge_sizes: Option<MthpPolicies>,
    /// How many tasks; as many as CPUs, if nothing is said
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// On how many CPUs, one run for each number; as many as there are, if nothing is said
    #[arg(long, value_name = "N", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// How long each run takes; 1, if nothing is said
    #[arg(long, value_name = "S", conflicts_with = "rounds")]
    seconds: Option<f64>,
    /// How many rounds each task does, instead of a time
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// MiB that each task touches in a round; 128, or less on a small machine, if nothing is said
    #[arg(long, value_name = "N")]
    mib: Option<u64>,
    /// Text or JSON.
    #[command(flatten)]
    output: Output,
}

/// Which way faults go.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Paths {
    /// Always under the space's lock
    Locked,
    /// Without it, as far as that goes
    Speculative,
    /// The same with the mapping locked, as in Linux: a yardstick
    VmaLock,
    /// A run under the space's lock, and one without it
    Both,
    /// A run of each of the three
    All,
}

impl Paths {
    fn list(self) -> &'static [Path] {
        match self {
            Paths::Locked => &[Path::Locked],
            Paths::Speculative => &[Path::Speculative],
            Paths::VmaLock => &[Path::VmaLock],
            Paths::Both => &[Path::Locked, Path::Speculative],
            Paths::All => &[Path::Locked, Path::VmaLock, Path::Speculative],
        }
    }
}

/// Most tasks: each is a host thread.
const MOST_THREADS: usize = 256;
/// MiB for each task, where there is memory.
const MIB: u64 = 128;
/// Pages in a MiB.
const PAGES: u64 = (1 << 20) / 4096;

/// Runs what is asked for.
pub fn run(args: Args) -> Result<(), Failure> {
    let workload = find(&args.workload)?;
    let host_cpus = Options::full().cpus;
    let cpus = args.numbers_of_cpus(host_cpus.len())?;
    let length = args.length()?;
    let setting = HostInfo::of_this_machine();
    let most_cpus = cpus.iter().copied().max().unwrap_or(1);
    let most_threads = args.tasks(&workload, most_cpus)?;
    let mib = args.mib(most_threads, setting.memory_bytes)?;
    let pages = most_threads as u64 * mib * PAGES * workload.frames_of_page;
    let machine = WorkloadMachine::new(&host_cpus[..most_cpus], pages)?;
    let sizes = args.huge_sizes.unwrap_or_default();
    let machine = machine.with_huge_pages(args.huge.policy()).with_huge_sizes(sizes);
    let runs = machine.with(|runner| {
        let mut runs = Vec::new();
        for &cpus in &cpus {
            for &path in args.path.list() {
                let threads = args.tasks(&workload, cpus)?;
                let (pages, timing) = (mib * PAGES, Timing::EachFault);
                let setup = Setup { workload, path, threads, cpus, pages, length, timing };
                let bar = Bar::new(args.output, &setup);
                let done = runner.run(&setup, |share| bar.show(share))?;
                runs.push(Run::of(&setup, &done));
            }
        }
        Ok(runs)
    })?;
    let (workload, huge) = (workload.name, args.huge.name());
    let (huge_sizes, bytes_per_thread) = (sizes_name(sizes), mib << 20);
    let report = Report { setting, workload, huge, huge_sizes, bytes_per_thread, runs };
    args.output.emit(&report, Report::text)
}

impl Args {
    fn numbers_of_cpus(&self, lent: usize) -> Result<Vec<usize>, Failure> {
        let wrong = |n: &&usize| !(1..=lent).contains(*n);
        match self.cpus.iter().find(wrong) {
            Some(n) => Err(Failure::usage(format!("--cpus {n}: this machine lends 1 to {lent}"))),
            None if self.cpus.is_empty() => Ok(vec![lent]),
            None => Ok(self.cpus.clone()),
        }
    }

    fn length(&self) -> Result<Length, Failure> {
        if let Some(rounds) = self.rounds {
            let none = || Failure::usage("--rounds 0: a run needs a round");
            return if rounds > 0 { Ok(Length::Rounds(rounds)) } else { Err(none()) };
        }
        let seconds = self.seconds.unwrap_or(1.0);
        match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() && seconds <= 86_400.0 => Ok(Length::Time(time)),
            _ => Err(Failure::usage(format!("--seconds {seconds}: more than none, at most a day"))),
        }
    }

    fn tasks(&self, workload: &Workload, cpus: usize) -> Result<usize, Failure> {
        let threads = self.threads.unwrap_or_else(|| cpus.max(workload.least_threads));
        let (least, name) = (workload.least_threads, workload.name);
        if (least..=MOST_THREADS).contains(&threads) {
            return Ok(threads);
        }
        Err(Failure::usage(format!("--threads {threads}: {name} takes {least} to {MOST_THREADS}")))
    }

    /// MiB for each task: what was asked for, or what an eighth of the memory allows.
    fn mib(&self, threads: usize, memory_bytes: u64) -> Result<u64, Failure> {
        let share = |parts: u64| (memory_bytes / parts / threads as u64) >> 20;
        match self.mib {
            None => Ok(MIB.min(share(8)).max(1)),
            Some(mib) if (1..=share(2)).contains(&mib) => Ok(mib),
            Some(mib) => Err(Failure::usage(format!("--mib {mib}: 1 to {}, half of the memory", share(2)))),
        }
    }
}

/// A bar on the terminal once a run takes more than a second.
struct Bar {
    bar: Option<ProgressBar>,
    start: Instant,
}

impl Bar {
    fn new(output: Output, setup: &Setup) -> Bar {
        let bar = output.may_draw_progress().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}");
            let bar = ProgressBar::hidden();
            bar.set_length(1000);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_message(format!("{}, {}", setup.path.name(), setup.cpus));
            bar
        });
        Bar { bar, start: Instant::now() }
    }

    fn show(&self, share: f64) {
        let Some(bar) = &self.bar else { return };
        if self.start.elapsed().as_secs() >= 1 && bar.is_hidden() {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        bar.set_position((share * 1000.0) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
