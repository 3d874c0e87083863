//! Scenes: what is built, what the CPUs do to it, and what must hold afterwards.

use super::cpu::Baton;
use super::report::{Report, Verdict};
use super::world::World;
use crate::machine::soft::{SoftMachine, seat};
use interleaf::machine::Format;
use std::ops::Range;
use std::rc::Rc;
use std::thread;

/// What one CPU does.
pub type Program<'a> = Box<dyn FnOnce() + 'a>;

/// How long a run may be and how much of it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// More steps are a livelock.
    pub limit_steps: u64,
    /// So many of the last steps are kept for the report.
    pub keep: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { limit_steps: 1_000_000, keep: 60 }
    }
}

/// Where a scene plays.
pub struct Stage {
    world: Rc<World>,
    seed: u64,
}

impl Stage {
    /// The seed of this run, for a scene that varies with it.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs `programs` on the CPUs of the machine, from CPU 0, and returns when all have come to their ends.
    /// Where one fails, or none can go on, this does not return: the scene is over.
    ///
    /// # Panics
    /// Where there are more programs than CPUs, or the scene itself still runs on one.
    pub fn run<F: Format>(&self, machine: &SoftMachine<Baton, F>, programs: Vec<Program<'_>>) {
        assert!(programs.len() <= machine.bus().nr_cpus() as usize, "more programs than CPUs");
        assert_eq!(seat::place().machine, 0, "the scene leaves its CPU before others run");
        self.world.run(machine.bus(), programs);
    }
}

/// Plays a scene with one seed.
pub fn play(seed: u64, options: Options, scene: impl FnOnce(&Stage) + Send + 'static) -> Report {
    // A thread of its own: a run that fails leaves its stacks, and perhaps a panic, behind.
    let run = move || {
        let world = World::new(seed, options.limit_steps, options.keep);
        let stage = Stage { world: world.clone(), seed };
        world.play(Box::new(move || scene(&stage)))
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
}

/// Plays a scene with each seed, up to the first that fails.
///
/// # Errors
/// The report of the seed that failed.
pub fn explore(
    seeds: Range<u64>,
    options: Options,
    scene: impl Fn(&Stage) + Send + Clone + 'static,
) -> Result<Summary, Box<Report>> {
    let run = move || {
        let mut summary = Summary::default();
        for seed in seeds {
            let world = World::new(seed, options.limit_steps, options.keep);
            let (stage, scene) = (Stage { world: world.clone(), seed }, scene.clone());
            let report = world.play(Box::new(move || scene(&stage)));
            if report.verdict != Verdict::Passed {
                return Err(Box::new(report));
            }
            summary.seeds += 1;
            summary.steps += report.steps;
            summary.switches += report.switches;
        }
        Ok(summary)
    };
    thread::spawn(run).join().expect("a run catches its panics")
}
