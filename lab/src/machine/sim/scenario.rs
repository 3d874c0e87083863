//! A run: what is built, and what the CPUs do to it.

use super::machine::NodeMachine;
use super::profile::{Costs, Ps};
use super::report::Report;
use super::simulation::Simulation;
use super::topology::Placement;
use crate::machine::fibers::{FiberCpus, Program, Verdict};
use crate::machine::soft::current;
use interleaf::machine::Format;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

/// Whether wait loops are left out while nothing changes: the clocks are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parking {
    /// They are.
    #[default]
    Exact,
    /// Every round is run: slow, for comparison.
    Off,
}

/// What a run depends on.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What things cost.
    pub costs: Costs,
    /// How CPUs fill the nodes.
    pub placement: Placement,
    /// Draws the gaps between accesses.
    pub seed: u64,
    /// How far a CPU may run ahead of the others on lines that it has.
    pub slack: Ps,
    /// Whether wait loops are left out.
    pub parking: Parking,
}

impl Setting {
    /// So far a CPU may run ahead: results differ by less than 1 % from those of no slack at all.
    pub const SLACK: Ps = 5_000;

    /// A run with these costs, nodes filled one after the other, seed 1.
    pub fn new(costs: Costs) -> Self {
        let (placement, parking) = (Placement::Filled, Parking::Exact);
        Self { costs, placement, seed: 1, slack: Self::SLACK, parking }
    }
}

/// Where a scenario lets its CPUs run.
pub struct Stage {
    simulation: Rc<Simulation>,
}

impl Stage {
    /// The run's setting.
    pub fn setting(&self) -> &Setting {
        &self.simulation.setting
    }

    /// Runs `programs` on the CPUs of the machine, from CPU 0, all clocks at 0 and all caches empty, and
    /// returns when all have come to their ends. If one fails, or none can go on, this does not return: the
    /// scenario is over.
    ///
    /// # Panics
    /// Where there are more programs than CPUs, or the scenario itself still runs on one.
    pub fn run<F: Format>(&self, machine: &NodeMachine<F>, programs: Vec<Program<'_>>) -> Report {
        let soft = machine.soft();
        assert!(programs.len() <= soft.bus().nr_cpus() as usize, "more programs than CPUs");
        assert_eq!(current::binding().machine, 0, "the scenario leaves its CPU before others run");
        self.simulation.run(soft.bus(), machine.memory_plan(), programs)
    }
}

/// Runs a scenario.
///
/// # Errors
/// How the run ended, if not well.
pub fn run<R: Send + 'static>(
    setting: Setting,
    scenario: impl FnOnce(&Stage) -> R + Send + 'static,
) -> Result<R, Verdict> {
    let (sender, receiver) = mpsc::channel();
    // A thread of its own: a run that fails leaves its stacks behind.
    let whole = move || {
        let simulation = Simulation::new(setting);
        simulation.install();
        let stage = Stage { simulation: simulation.clone() };
        let scenario = Box::new(move || drop(sender.send(scenario(&stage))));
        let verdict = FiberCpus::run_scenario(&simulation, scenario);
        Simulation::remove();
        verdict
    };
    match thread::spawn(whole).join().expect("a run catches its panics") {
        Verdict::Passed => Ok(receiver.recv().expect("a scenario that passed has a result")),
        verdict => Err(verdict),
    }
}

/// Waits, at no cost, until all CPUs of the run have come here; outside of a run, returns at once.
pub fn meet() {
    Simulation::with(Simulation::meet);
}

/// The running CPU computes for some time, away from all that is shared; it handles interrupts meanwhile.
/// Outside of a run, returns at once.
pub fn pass(time: Ps) {
    Simulation::with(|simulation| simulation.pass(time));
}

/// Runs `f`; only what the running CPU does meanwhile counts as measured, its time and its waits.
pub fn measured<R>(f: impl FnOnce() -> R) -> R {
    Simulation::with(Simulation::begin_measured);
    let result = f();
    Simulation::with(Simulation::end_measured);
    result
}

/// The clock of the running CPU, in picoseconds; 0 outside of a run.
pub fn now_ps() -> Ps {
    Simulation::with(Simulation::read_clock).unwrap_or(0)
}
