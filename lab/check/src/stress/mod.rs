//! Real threads on real CPUs: tasks that map, write, protect, drop and unmap in one space, and check what
//! they read.
//!
//! ```text
//!   one space, run by all tasks             a space of each task's own
//!   ┌───────────────────────────────┐       ┌───────────────┐
//!   │ a task's own pages, every one │       │ as on the left│
//!   │ contested pages: any task maps│       │               │
//!   │ protects, drops, unmaps them  │       │               │
//!   │ an object, shared ════════════╪═══════╪═ the object   │
//!   │ the heap                      │       └───────────────┘
//!   └───────────────────────────────┘
//! ```
//!
//! There may be more tasks than CPUs: they take turns, switched between two instructions of user code, when
//! they sleep, and in the middle of a call that waits. A seed decides what each task does; the host decides
//! when, so a failure cannot be reproduced from the seed: the seeded machine ([`super::pairs`]) is for that.
//!
//! A task knows what its own pages must hold. Of a page that others may change it knows that it is absent, or
//! holds zero, or the word that belongs to it and to no other page: so a frame that is mapped in two places,
//! or after it was freed, is noticed. When all are done, everything is recounted.

mod task;

use super::recount::QuiescentSystem;
use interleaf::machine::Format;
use interleaf::space::{Active, AddressSpace, Counter, Fallback, Layout, Path, Vm};
use interleaf::units::CpuId;
use interleaf_lab::machine::host::Host;
use interleaf_lab::machine::soft::boot_map;
use interleaf_lab::machine::soft::{MachineConfig, SoftMachine};
use interleaf_lab::os::affinity;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use task::Task;

type Machine<F> = SoftMachine<Host, F>;
type Space<'v, F> = AddressSpace<'v, Machine<F>>;
type ActiveSpace<'s, 'v, F> = Active<'s, 'v, Machine<F>>;

/// How long tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This number of rounds of each task.
    Rounds(u64),
    /// As many rounds as begin in that time.
    Time(Duration),
}

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct StressConfig {
    /// Tasks, each a host thread.
    pub tasks: u32,
    /// CPUs that they take turns on.
    pub cpus: u32,
    /// How long.
    pub length: Length,
    /// What the tasks do.
    pub seed: u64,
    /// Which way faults go.
    pub path: Path,
}

/// What was run. The field names are the JSON's and stay.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Done {
    /// Tasks.
    pub tasks: u32,
    /// CPUs.
    pub cpus: u32,
    /// Rounds of all tasks together.
    pub rounds: u64,
    /// How often a task gave up its CPU to another, or to sleep.
    pub turns: u64,
    /// Page faults.
    pub faults: u64,
    /// Of them, those that were resolved without a lock of the space or of a mapping.
    pub speculated: u64,
    /// Of them, those that were resolved with the mapping locked.
    pub vma_locked: u64,
    /// Of them, those that gave up and took the space's lock.
    pub fell_back: u64,
    /// Flushes of other CPUs' translations.
    pub flushes: u64,
}

/// Frames for each task: its pages in two spaces, tables, and what CPUs cache.
const FRAMES_PER_TASK: u64 = 512;
/// Frames for what all share.
const FRAMES: u64 = 8192;
/// The most tasks.
pub const MOST_TASKS: u32 = 256;

/// What the tasks of a run share.
struct StressRun<'a, 'v, F: Format> {
    machine: &'a Machine<F>,
    vm: &'a Vm<'v, Machine<F>>,
    shared: &'a Space<'v, F>,
    config: &'a StressConfig,
    start: Instant,
    /// All tasks begin together, so that they take turns from the start.
    begin: Barrier,
    /// A task has found something wrong: the others end. Relaxed: soon is enough.
    stop: AtomicBool,
}

/// Runs the tasks and recounts everything afterwards. Where the library panics in one, the process ends: its
/// CPU would never answer again.
///
/// # Errors
/// What a task found wrong, or a checker afterwards.
pub fn run<F: Format>(config: &StressConfig) -> Result<Done, String> {
    let frames = FRAMES + FRAMES_PER_TASK * u64::from(config.tasks);
    let machine =
        Machine::<F>::new(&MachineConfig::small(config.cpus, frames)).map_err(|error| error.to_string())?;
    let cpu = machine.enter(CpuId(0));
    let vm = Vm::new(&machine, boot_map(&machine)).map_err(|error| error.to_string())?;
    let allocated = || vm.memory().check().map(|census| census.allocated).map_err(|wrong| wrong.to_string());
    let before = allocated()?;
    let new = || AddressSpace::new(&vm, Layout::linux::<F>(), config.path).map_err(|error| error.to_string());
    let shared = new()?;
    let own = (0..config.tasks).map(|_| new()).collect::<Result<Vec<_>, _>>()?;
    {
        let _running = shared.activate(None);
        task::set_up(&machine, &shared, &own)?;
    }
    drop(cpu);
    let run = StressRun {
        machine: &machine,
        vm: &vm,
        shared: &shared,
        config,
        start: Instant::now(),
        begin: Barrier::new(config.tasks as usize),
        stop: AtomicBool::new(false),
    };
    let mut done = run.run_tasks(&own)?;
    let _cpu = machine.enter(CpuId(0));
    let spaces: Vec<_> = std::iter::once(&shared).chain(&own).collect();
    QuiescentSystem { machine: &machine, vm: &vm, spaces: &spaces, path: config.path }.recount()?;
    let totals = vm.totals();
    done.faults = totals.get(Counter::PgFault);
    done.speculated = totals.get(Counter::SpeculativePgFault);
    done.vma_locked = totals.get(Counter::VmaLockSuccess);
    done.fell_back = Fallback::ALL.iter().map(|reason| totals.get(reason.counter())).sum();
    done.flushes = totals.get(Counter::TlbFlush);
    drop((shared, own));
    vm.trim();
    let after = allocated()?;
    if after == before {
        Ok(done)
    } else {
        Err(format!("{before} frames were handed out before, {after} after"))
    }
}

impl<'v, F: Format> StressRun<'_, 'v, F> {
    /// Starts all tasks and waits for them.
    fn run_tasks(&self, own: &[Space<'v, F>]) -> Result<Done, String> {
        let none = Done { tasks: self.config.tasks, cpus: self.config.cpus, ..Done::default() };
        thread::scope(|scope| {
            let start = |(index, own)| scope.spawn(move || self.task(index, own));
            let tasks: Vec<_> = own.iter().enumerate().map(start).collect();
            tasks.into_iter().try_fold(none, |sum, task| {
                let (rounds, turns) = task.join().expect("a task that panics ends the process")?;
                Ok(Done { rounds: sum.rounds + rounds, turns: sum.turns + turns, ..sum })
            })
        })
    }

    /// One task, from its first instruction to its last. Says how many rounds it did and how often it gave up
    /// its CPU.
    fn task(&self, index: usize, own: &Space<'v, F>) -> Result<(u64, u64), String> {
        let body = || {
            let cpu = index % self.config.cpus as usize;
            // Unpinned is slower, not wrong.
            let host_cpu = affinity::allowed().ok().and_then(|cpus| cpus.get(cpu).copied());
            let _pinned = host_cpu.and_then(|host_cpu| affinity::pin(host_cpu).ok());
            self.begin.wait();
            let _seat = self.machine.enter(CpuId(cpu as u32));
            let mut task = Task::new(self, own, index);
            let result = task.work();
            self.vm.trim();
            result
        };
        let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
            eprintln!("task {index} of {:?} panicked", self.config);
            std::process::exit(101)
        });
        if result.is_err() {
            self.stop.store(true, Relaxed);
        }
        result.map_err(|wrong| format!("task {index}: {wrong}"))
    }

    /// Whether a task that has done `rounds` rounds is to do another.
    fn goes_on(&self, rounds: u64) -> bool {
        let ended = match self.config.length {
            Length::Rounds(most) => rounds >= most,
            Length::Time(most) => self.start.elapsed() >= most,
        };
        !ended && !self.stop.load(Relaxed)
    }
}
