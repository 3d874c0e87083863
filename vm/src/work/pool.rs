//! The worker pool: a machine's helpers, and the call that runs a job.

use super::dispatch::{Dispatch, Helpers, PollLimit};
use super::job::{AnyWork, Chunk, Failed, Job, Spent};
use super::partition::Partition;
use super::run::JobRun;
use crate::machine::{Cpu, Machine};
use crate::sync::{Carve, Event, Handler, MachineMemory, RegisterError, Registration, SpinLock, lockdep};
use crate::units::{CpuId, CpuMask, NodeId};
use core::fmt;

/// The helpers of a machine, if there are any; runs jobs and ordered queues.
pub struct WorkerPool<'m, M: Machine> {
    machine: &'m M,
    /// `None` in a pool without helpers.
    helpers: Option<Registration<'m, M, Dispatch<'static, M::Cpu>>>,
    no_helpers: Dispatch<'m, M::Cpu>,
}

impl<M: Machine> Handler<M> for Dispatch<'static, M::Cpu> {
    type State<'x> = Dispatch<'x, M::Cpu>;
    const EVENT: Event = Event::Helper;

    fn carve<'x>(from: &mut impl Carve<'x>, machine: &M) -> Option<Dispatch<'x, M::Cpu>> {
        Dispatch::carve(from, machine.nr_cpus(), |cpu| machine.node_of(cpu))
    }

    fn shorten<'a, 's, 'l: 's>(state: &'a Dispatch<'l, M::Cpu>) -> &'a Dispatch<'s, M::Cpu> {
        state
    }

    fn handle(state: &Dispatch<'_, M::Cpu>, _: &M) {
        state.serve();
    }

    fn stop(state: &Dispatch<'_, M::Cpu>) {
        state.close();
    }
}

impl<'m, M: Machine> WorkerPool<'m, M> {
    /// A pool without helpers: the caller of each job does all of it.
    pub fn without_helpers(machine: &'m M) -> Self {
        Self { machine, helpers: None, no_helpers: Dispatch::empty() }
    }

    /// A pool with the machine's helpers, which serve until the pool is dropped.
    ///
    /// # Errors
    /// [`RegisterError::NoMemory`] if the memory does not suffice: 128 bytes for each CPU, 8.2 KiB for each
    /// node and 1 KiB more for each of the [`Cpu::CpuWords`] but the first, and a few more; or if those
    /// cannot name all CPUs. [`RegisterError::Taken`] where the helpers are another pool's, also of one that
    /// was leaked: a machine has one such pool at a time.
    pub fn spawn(machine: &'m M, from: &mut impl MachineMemory<'m, M>) -> Result<Self, RegisterError> {
        let helpers = Registration::register(machine, from)?;
        Ok(Self { helpers: Some(helpers), ..Self::without_helpers(machine) })
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// Limits the helpers at work at once, for all jobs together; helpers at work go on.
    pub fn set_max_helpers(&self, max: u32) {
        self.dispatch().set_max_helpers(max);
    }

    /// Limits the helpers at work at once on a node, for all jobs together; as
    /// [`set_max_helpers`](Self::set_max_helpers). A node without CPUs has no helpers.
    pub fn set_max_helpers_on(&self, node: NodeId, max: u32) {
        self.dispatch().set_max_helpers_on(node, max);
    }

    /// Sets how long idle helpers, and callers that wait for theirs, poll before they sleep.
    pub fn set_poll_limit(&self, limit: PollLimit) {
        self.dispatch().set_poll_limit(limit);
    }

    /// Whether a helper waits or works on `cpu`; may be stale.
    pub fn has_helper_racy(&self, cpu: CpuId) -> bool {
        self.dispatch().has_helper_racy(cpu)
    }

    /// Dismisses the helper of `cpu`, until the platform starts it again, and waits for its chunk under way:
    /// called before the CPU is taken offline. May sleep.
    pub fn dismiss(&self, cpu: CpuId) {
        self.dispatch().dismiss(cpu);
    }

    /// Visits of helpers under way.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn nr_visits(&self) -> u32 {
        self.dispatch().nr_visits()
    }

    /// Whether a helper of another CPU may join a job now; stale at once. Where none may, a caller that can
    /// do its work at once need not cut it. Helpers at work in other jobs count too: one may be free soon.
    pub(crate) fn may_have_helper_racy(&self) -> bool {
        self.dispatch().nr_cpus() > 1 && self.dispatch().nr_available_racy() > 0
    }

    /// Runs the job; the caller works too. Returns when the whole range is done, or after all workers have
    /// stopped and the work is undone. Chunks may run jobs of their own. May sleep: the caller holds no spin
    /// lock and is in no RCU read section. For the lock order, its helpers hold what it holds.
    ///
    /// # Errors
    /// Why the job is not done. A panic of the caller's own chunk goes on, after the undoing.
    pub fn run<E: Send, W>(&self, job: &Job<'_, W>) -> Result<Spent, Failed<E>>
    where
        W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
    {
        self.run_beside(job, || ())
    }

    /// As [`run`](Self::run); the caller calls `first` before it works, when helpers can join already.
    pub(crate) fn run_beside<E: Send, W>(
        &self,
        job: &Job<'_, W>,
        first: impl FnOnce(),
    ) -> Result<Spent, Failed<E>>
    where
        W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
    {
        let mut error = SpinLock::<Option<E>, M::Cpu, { lockdep::JOB.0 }>::new(None);
        let work = |chunk: &Chunk<'_>| {
            (job.work)(chunk).map_err(|found| {
                let mut first = error.lock();
                if first.is_none() {
                    *first = Some(found);
                }
            })
        };
        let mut first = Some(first);
        let first = &mut || first.take().into_iter().for_each(|first| first());
        let done = self.run_any(&job.with_work::<AnyWork<'_>>(&work), first);
        done.map_err(|failed| match (failed, error.get_mut().take()) {
            (Failed::Error(()), Some(error)) => Failed::Error(error),
            (Failed::Cancelled, _) => Failed::Cancelled,
            _ => Failed::Panicked,
        })
    }

    /// As [`run_beside`](Self::run_beside), for a function of any job. Calls `first` once.
    fn run_any(&self, job: &Job<'_, AnyWork<'_>>, first: &mut dyn FnMut()) -> Result<Spent, Failed<()>> {
        let Some(partition) = Partition::new(job) else {
            first();
            return Ok(Spent::default());
        };
        let dispatch = self.dispatch();
        let own_part = u32::from(!job.is_for_helpers);
        let max_helpers = (partition.max_workers(job) - own_part).min(job.max_helpers);
        let max_helpers = max_helpers.min(dispatch.nr_available_racy());
        let cpus = if max_helpers > 0 { self.helper_cpus() } else { CpuMask::new() };
        let max_helpers = max_helpers.min(cpus.count());
        let mut run = JobRun::new(job, partition, max_helpers + 1, dispatch);
        #[cfg(loom)]
        run.touch_words();
        let stands_back = job.is_for_helpers && max_helpers > 0 && dispatch.has_helper_on_racy(job.nodes);
        let patience = if stands_back { dispatch.patience() } else { 0 };
        let mut work = || {
            first();
            run.work_as_caller(patience);
        };
        let helpers = Helpers::idle(max_helpers, job.nodes, cpus.as_mask());
        let published = if max_helpers > 0 { dispatch.publish(&run, helpers, &mut work) } else { None };
        let ((), spent) = published.unwrap_or_else(|| (work(), Spent::default()));
        run.result().map(|()| spent)
    }

    /// The CPUs whose helpers may work for this thread.
    pub(super) fn helper_cpus(&self) -> CpuMask<<M::Cpu as Cpu>::CpuWords> {
        let mut cpus = CpuMask::first(self.dispatch().nr_cpus());
        self.machine.restrict_helpers(cpus.as_mask_mut());
        cpus
    }

    pub(super) fn dispatch(&self) -> &Dispatch<'_, M::Cpu> {
        self.helpers.as_deref().unwrap_or(&self.no_helpers)
    }
}

impl<M: Machine> fmt::Debug for WorkerPool<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerPool of {} CPUs", self.dispatch().nr_cpus())
    }
}
