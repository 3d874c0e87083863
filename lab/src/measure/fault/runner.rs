//! Sets a workload up, runs its tasks, and checks afterwards that everything adds up.
//!
//! A task is a host thread, pinned to the host CPU under the CPU that it runs on. There are at most as many
//! CPUs as the host allows; further tasks take turns.

use super::Workload;
use super::counts::{TaskCounts, Timing};
use super::worker::{TaskGroup, Worker};
use crate::error::Failure;
use crate::machine::host::TaskSpace;
use crate::machine::soft::{Fill, MachineConfig, SoftMachine, with_switch_notifier};
use crate::measure::timed_machine::{self, TimedMachine};
use crate::os::affinity;
use interleaf::space::{AddressSpace, Layout, Path, Totals, Vm};
use interleaf::table::format::X86_64;
use interleaf::tlb::ShootdownStats;
use interleaf::units::{CpuId, Pfn, PfnRange};
use interleaf::vma::{HugePolicy, MthpPolicies};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long tasks go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This number of rounds of each task.
    Rounds(u64),
    /// As many rounds as begin in that time.
    Time(Duration),
}

/// What is run.
#[derive(Clone)]
pub struct Setup {
    /// What the tasks do.
    pub workload: Workload,
    /// Which way faults go.
    pub path: Path,
    /// Tasks.
    pub threads: usize,
    /// CPUs that they run on, at most as many as the machine has.
    pub cpus: usize,
    /// Pages that each task touches in a round.
    pub pages: u64,
    /// How long.
    pub length: Length,
    /// Whether faults are timed one by one.
    pub timing: Timing,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// What each task counted.
    pub tasks: Vec<TaskCounts>,
    /// All tasks together.
    pub sum: TaskCounts,
    /// What the library counted meanwhile.
    pub counted: Totals,
    /// Interrupts to flush that CPUs sent each other meanwhile.
    pub interrupts: ShootdownStats,
}

/// A machine to run workloads on.
pub struct WorkloadMachine {
    machine: Mutex<TimedMachine>,
    host_cpus: Vec<usize>,
    huge: HugePolicy,
    sizes: MthpPolicies,
}

impl WorkloadMachine {
    /// A machine whose CPUs are these host CPUs, with memory for tasks that touch `pages` pages all together.
    ///
    /// # Errors
    /// What the host says.
    pub fn new(host_cpus: &[usize], pages: u64) -> Result<Self, Failure> {
        let first = Pfn(1 << 8);
        // Records, tables, what caches and flushes under way hold back, and the last frames, which are for
        // those in need.
        let frames = pages + pages / 8 + 4096;
        let regions = vec![PfnRange::new(first, first.add(frames))];
        let config = MachineConfig { nr_cpus: host_cpus.len() as u32, regions, fill: Fill::Dirty };
        let (machine, huge) = (Mutex::new(SoftMachine::new(&config)?), HugePolicy::Never);
        Ok(Self { machine, host_cpus: host_cpus.to_vec(), huge, sizes: MthpPolicies::NEVER })
    }

    /// The same, with huge pages as the policy says.
    pub fn with_huge_pages(self, huge: HugePolicy) -> Self {
        Self { huge, ..self }
    }

    /// The same, with mTHP folios.
    pub fn with_huge_sizes(self, sizes: MthpPolicies) -> Self {
        Self { sizes, ..self }
    }

    /// Runs `show` with the library on this machine.
    ///
    /// # Errors
    /// Those of `show`; that frames were lost; that a TLB reported a violation.
    pub fn with<R>(
        &self,
        show: impl FnOnce(&WorkloadRunner<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        machine.unclaim_memory();
        let machine = &*machine;
        let entered = machine.enter(CpuId(0));
        let vm = timed_machine::vm_with_sizes(machine, self.huge, self.sizes)?;
        drop(entered);
        let runner = WorkloadRunner { vm: &vm, host_cpus: &self.host_cpus };
        let before = runner.allocated()?;
        let result = show(&runner)?;
        let after = runner.allocated()?;
        if after != before {
            return Err(Failure::check(format!(
                "{before} frames were handed out before, {after} afterwards"
            )));
        }
        if let Some(violation) = machine.violations().first() {
            return Err(Failure::check(format!("a TLB saw what cannot be: {violation:?}")));
        }
        Ok(result)
    }
}

/// The library on a machine.
pub struct WorkloadRunner<'v> {
    vm: &'v Vm<'v, TimedMachine>,
    host_cpus: &'v [usize],
}

impl WorkloadRunner<'_> {
    /// Runs a workload in a space of its own. `watch` is called about every tenth of a second with the share
    /// that is done, from 0 to 1.
    ///
    /// # Errors
    /// What a task met with, or that the counts do not agree.
    pub fn run(&self, setup: &Setup, watch: impl FnMut(f64)) -> Result<RunResult, Failure> {
        let machine = self.vm.machine();
        let space = {
            let _entered = machine.enter(CpuId(0));
            AddressSpace::new(self.vm, Layout::linux::<X86_64>().overcommit(), setup.path)
                .map_err(Failure::of)?
        };
        let (totals, shots) = (self.vm.totals(), self.vm.shootdown_stats());
        let tasks = self.tasks(&TaskGroup::new(&space, setup), watch);
        let _entered = machine.enter(CpuId(0));
        drop(space);
        let tasks = tasks?;
        let mut sum = TaskCounts::new(setup.timing);
        tasks.iter().for_each(|task| sum.add(task));
        let counted = self.vm.totals().since(&totals);
        sum.check(&counted)?;
        let interrupts = self.vm.shootdown_stats().since(&shots);
        Ok(RunResult { tasks, sum, counted, interrupts })
    }

    /// Starts all tasks and waits for them.
    fn tasks(
        &self,
        group: &TaskGroup<'_, '_>,
        mut watch: impl FnMut(f64),
    ) -> Result<Vec<TaskCounts>, Failure> {
        let start = Instant::now();
        thread::scope(|s| {
            let tasks: Vec<_> =
                (0..group.setup.threads).map(|index| s.spawn(move || self.task(group, index))).collect();
            while !tasks.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::park_timeout(Duration::from_millis(if start.elapsed().as_secs() < 1 {
                    5
                } else {
                    100
                }));
                watch(group.done(start));
            }
            tasks.into_iter().map(|task| task.join().expect("a task panicked")).collect()
        })
    }

    /// One task, from its first instruction to its last.
    fn task(&self, group: &TaskGroup<'_, '_>, index: usize) -> Result<TaskCounts, Failure> {
        let _exit = TaskExit(group);
        let cpu = index % group.setup.cpus;
        // Unpinned is slower, not wrong: a host that forbids pinning still gets a figure.
        let _pinned = affinity::pin(self.host_cpus[cpu]).ok();
        let _entered = self.vm.machine().enter(CpuId(cpu as u32));
        let worker = Worker::new(group, index);
        let space = TaskSpace::new(group.space);
        let done = with_switch_notifier(&space, || (group.setup.workload.work)(&worker));
        drop(space);
        if done.is_err() {
            group.barrier.abort();
        }
        done.map(|()| worker.into_counts())
    }

    /// Frames that are handed out once nothing is kept for later.
    fn allocated(&self) -> Result<u64, Failure> {
        for cpu in 0..self.host_cpus.len() {
            let _entered = self.vm.machine().enter(CpuId(cpu as u32));
            self.vm.trim();
        }
        let _entered = self.vm.machine().enter(CpuId(0));
        let census = self.vm.memory().check();
        census.map(|census| census.allocated).map_err(|e| Failure::check(format!("frames: {e:?}")))
    }
}

impl TaskGroup<'_, '_> {
    /// How much is done, from 0 to 1.
    fn done(&self, start: Instant) -> f64 {
        let share = match self.setup.length {
            Length::Rounds(most) => self.rounds.load(Relaxed) as f64 / most.max(1) as f64,
            Length::Time(most) => start.elapsed().as_secs_f64() / most.as_secs_f64(),
        };
        share.min(1.0)
    }
}

/// Takes a task off the list of those at work, however it ends; one that panics breaks the barrier.
struct TaskExit<'a, 'v>(&'a TaskGroup<'a, 'v>);

impl Drop for TaskExit<'_, '_> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Relaxed);
        if thread::panicking() {
            self.0.barrier.abort();
        }
    }
}
