//! Scenarios: what is built, what the CPUs do to it, and what must hold afterwards.

use super::cpu::Baton;
use super::report::Report;
use super::scheduler::Scheduler;
use crate::machine::fibers::{Program, Verdict};
use crate::machine::soft::{SoftMachine, current};
use interleaf::machine::Format;
use interleaf::units::CpuId;
use std::ops::Range;
use std::rc::Rc;
use std::thread;

/// How long a run may be and how much of it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of steps after which a run is a livelock.
    pub limit_steps: u64,
    /// Number of last steps that are kept for the report.
    pub keep: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { limit_steps: 1_000_000, keep: 60 }
    }
}

/// What a scenario is given: its seed, and the scheduler that runs its CPUs.
pub struct Schedule {
    scheduler: Rc<Scheduler>,
    seed: u64,
}

impl Schedule {
    /// The seed of this run, for a scenario that varies with it.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// In the next run CPU `cpu` stops for ever after `steps` of its own, wherever that is, but for the first
    /// place from there on where it has interrupts on. It takes no more steps but for the answers to
    /// interrupts, until all other CPUs have come to their ends; then it goes on to its own. A CPU that waits
    /// for it meanwhile makes the run fail.
    pub fn stop_for_ever(&self, cpu: CpuId, steps: u64) {
        self.scheduler.stop_at(cpu.index(), steps);
    }

    /// Runs `programs` on the CPUs of the machine, from CPU 0, and returns when all have come to their ends.
    /// If one fails, or none can go on, this does not return: the scenario is over.
    ///
    /// # Panics
    /// Where there are more programs than CPUs, or the scenario itself still runs on one.
    pub fn run<F: Format>(&self, machine: &SoftMachine<Baton, F>, programs: Vec<Program<'_>>) {
        assert!(programs.len() <= machine.bus().nr_cpus() as usize, "more programs than CPUs");
        assert_eq!(current::binding().machine, 0, "the scenario leaves its CPU before others run");
        self.scheduler.run(machine.bus(), programs);
    }
}

/// Runs a scenario with one seed.
pub fn run_seed(seed: u64, options: Options, scenario: impl FnOnce(&Schedule) + Send + 'static) -> Report {
    // A thread of its own: a run that fails leaves its stacks, and perhaps a panic, behind.
    let run = move || {
        let scheduler = Scheduler::new(seed, options.limit_steps, options.keep);
        let schedule = Schedule { scheduler: scheduler.clone(), seed };
        scheduler.run_scenario(Box::new(move || scenario(&schedule)))
    };
    thread::spawn(run).join().expect("a run catches its panics")
}

/// How many seeds passed, and what they did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Seeds that passed.
    pub seeds: u64,
    /// Steps of all of them.
    pub steps: u64,
    /// Switches of all of them.
    pub switches: u64,
    /// Seeds in which a CPU stopped for ever.
    pub stopped: u64,
}

/// Runs a scenario with each seed, up to the first that fails.
///
/// # Errors
/// The report of the seed that failed.
pub fn explore(
    seeds: Range<u64>,
    options: Options,
    scenario: impl Fn(&Schedule) + Send + Clone + 'static,
) -> Result<Summary, Box<Report>> {
    let run = move || {
        let mut summary = Summary::default();
        for seed in seeds {
            let scheduler = Scheduler::new(seed, options.limit_steps, options.keep);
            let (schedule, scenario) = (Schedule { scheduler: scheduler.clone(), seed }, scenario.clone());
            let report = scheduler.run_scenario(Box::new(move || scenario(&schedule)));
            if report.verdict != Verdict::Passed {
                return Err(Box::new(report));
            }
            summary.seeds += 1;
            summary.steps += report.steps;
            summary.switches += report.switches;
            summary.stopped += u64::from(report.stopped);
        }
        Ok(summary)
    };
    thread::spawn(run).join().expect("a run catches its panics")
}
