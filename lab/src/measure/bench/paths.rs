//! How many faults take no lock of the space, and what is that worth while other CPUs fault, or map?
//!
//! The shares are counted over workloads of [`crate::measure::fault`]. The rates are of the same workload in
//! the same run, its faults going one way and the other in turn; rounds are small enough for frames to stay
//! in the caches, so that the handler is measured rather than zeroing.

use super::{Bar, Benchmark, Figure, Options, paired};
use crate::error::Failure;
use crate::measure::fault::{Length, Setup, Timing, Workload, WorkloadMachine, WorkloadRunner, find};
use crate::measure::timed_machine;
use interleaf::space::Path;
use std::time::Duration;

/// See the module.
pub const BENCHMARK: Benchmark = Benchmark {
    name: "paths",
    question: "How many faults take no lock of the space, and what is that worth while others fault or map?",
    figures: &[
        "paths.share_page_fault1",
        "paths.share_pft",
        "paths.share_mapper",
        "paths.time_two_cpus",
        "paths.time_mapper",
        "paths.page_fault2_one_cpu",
        "paths.page_fault2_two_cpus",
        "paths.page_fault3_one_cpu",
        "paths.page_fault3_two_cpus",
    ],
    run,
};

/// Pages that each task touches in a round of a share: 8 MiB.
const SHARE_PAGES: u64 = 2048;

fn run(options: &Options) -> Result<Vec<Figure>, Failure> {
    let host_cpus = &options.cpus[..timed_machine::nr_cpus(options) as usize];
    WorkloadMachine::new(host_cpus, 2 * SHARE_PAGES)?.with(|runner| {
        let run = Run { options, runner, cpus: host_cpus.len() };
        Ok(vec![
            run.share("paths.share_page_fault1", "page_fault1")?,
            run.share("paths.share_pft", "pft")?,
            run.share("paths.share_mapper", "mapper")?,
            run.time("paths.time_two_cpus", "pft", run.cpus, 20, 1.0)?,
            run.time("paths.time_mapper", "mapper", run.cpus, 50, 1.5)?,
            run.time("paths.page_fault2_one_cpu", "page_fault2", 1, 20, 1.0)?,
            run.time("paths.page_fault2_two_cpus", "page_fault2", run.cpus, 20, 1.0)?,
            run.time("paths.page_fault3_one_cpu", "page_fault3", 1, 20, 1.0)?,
            run.time("paths.page_fault3_two_cpus", "page_fault3", run.cpus, 20, 1.0)?,
        ])
    })
}

struct Run<'a, 'v> {
    options: &'a Options,
    runner: &'a WorkloadRunner<'v>,
    cpus: usize,
}

impl Run<'_, '_> {
    /// The part of a workload's faults that was speculated.
    fn share(&self, figure: &'static str, workload: &str) -> Result<Figure, Failure> {
        let length = Length::Rounds(self.options.size(64, 2));
        let setup = self.setup(find(workload)?, self.cpus, Path::Speculative, SHARE_PAGES, length);
        let done = self.runner.run(&setup, |_| {})?;
        Ok(Figure::count(figure, done.share_speculated(), "of faults").with_bar(Bar::AtLeast(0.99)))
    }

    /// Faults per second of a workload, speculative against locked, each for some milliseconds at a time:
    /// long enough that a host which takes a CPU away for a time slice takes it from both sides. On a host of
    /// one CPU there is no bar.
    fn time(
        &self,
        figure: &'static str,
        workload: &str,
        cpus: usize,
        ms: u64,
        bar: f64,
    ) -> Result<Figure, Failure> {
        let workload = find(workload)?;
        let pages = self.options.size(256, 64);
        let length = self.options.size(Length::Time(Duration::from_millis(ms)), Length::Rounds(2));
        let rate = |path| {
            let setup = self.setup(workload, cpus, path, pages, length);
            let done = self.runner.run(&setup, |_| {}).expect("a workload that ran before runs again");
            done.faults_per_second()
        };
        let yardstick = "under the space's lock";
        let (ours, theirs) = (|| rate(Path::Speculative), || rate(Path::Locked));
        let figure = paired(self.options, figure, "faults/s", ours, yardstick, theirs);
        Ok(if self.cpus < 2 { figure } else { figure.with_bar(Bar::AtLeast(bar)) })
    }

    fn setup(&self, workload: Workload, cpus: usize, path: Path, pages: u64, length: Length) -> Setup {
        let threads = cpus.max(workload.least_threads);
        Setup { workload, path, threads, cpus, pages, length, timing: Timing::None }
    }
}
