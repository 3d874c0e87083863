//! The helpers of a machine.

use super::dispatch::{Board, Exhibit, PollLimit, Terms};
use super::plan::Cut;
use super::run::{self, Lost, MAX_HELPERS, Running};
use super::shares::Others;
use super::value::{Chunk, Failed, Job, Spent};
use crate::machine::{Cpu, Machine};
use crate::sync::{Carve, Event, Handler, Registration};
use crate::units::CpuId;
use core::fmt;

/// The helpers of a machine, as far as there are any, and what they do: jobs.
pub struct WorkerPool<'m, M: Machine> {
    machine: &'m M,
    hired: Option<Registration<'m, M, Program<M::Cpu>>>,
    /// In place of hired ones.
    nobody: Program<M::Cpu>,
}

/// What helpers run.
struct Program<C: Cpu>(Board<C>);

impl<M: Machine> Handler<M> for Program<M::Cpu> {
    const EVENT: Event = Event::Helper;

    fn handle(&self, _: &M) {
        self.0.serve();
    }
    fn stop(&self) {
        self.0.close();
    }
}

impl<'m, M: Machine> WorkerPool<'m, M> {
    /// A workers without helpers: callers do their jobs alone.
    pub fn without_helpers(machine: &'m M) -> Self {
        Self { machine, hired: None, nobody: Program(Board::empty()) }
    }

    /// Has the machine's helpers wait for jobs, until this is dropped. One workers at a time. `None` where
    /// the memory does not suffice: 256 bytes for each CPU and a few more.
    pub fn spawn(machine: &'m M, from: &mut impl Carve) -> Option<Self> {
        let board = Board::carve(from, machine.nr_cpus(), |cpu| machine.node_of(cpu))?;
        let hired = Registration::register(machine, from, Program(board))?;
        Some(Self { hired: Some(hired), ..Self::without_helpers(machine) })
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// Lets at most so many helpers work at once, for all jobs together; those at work stay there.
    pub fn set_max_helpers(&self, most: u32) {
        self.board().set_max_helpers(most);
    }

    /// How long helpers without work, and callers whose helpers have not finished, look again before they
    /// sleep.
    pub fn set_poll_limit(&self, patience: PollLimit) {
        self.board().set_poll_limit(patience);
    }

    /// Whether a helper waits, or works, on `cpu`; stale at once.
    pub fn has_helper_racy(&self, cpu: CpuId) -> bool {
        self.board().is_served_racy(cpu)
    }

    /// Has the helper of `cpu` go, for good or until the platform has it help again: before the CPU is taken
    /// offline. Waits for the chunk that it is in; what else it had to do is done by others.
    pub fn dismiss(&self, cpu: CpuId) {
        self.board().dismiss(cpu);
    }

    /// Does the job; the caller works too. Returns when the whole range is done, or when nobody works on it
    /// any more and what was done is undone (where the job says how).
    ///
    /// The caller may sleep: it holds no spin lock and is in no RCU read section. What else it holds, its
    /// helpers hold for the lock ladder too. Chunks may run jobs of their own.
    ///
    /// # Errors
    /// Why the job is not done. A panic of the caller's own chunk goes on through this call, after the
    /// undoing.
    pub fn run<E: Send, W>(&self, job: &Job<'_, W>) -> Result<Spent, Failed<E>>
    where
        W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
    {
        let Some(cut) = Cut::new(job) else { return Ok(Spent::default()) };
        let board = self.board();
        let helpers = (cut.most_workers(job) - 1).min(job.max_helpers).min(MAX_HELPERS);
        let helpers = if helpers == 0 { 0 } else { helpers.min(board.could_come_racy()) };
        let lost = Lost::new();
        let first = cut.first(helpers > 0 || job.stop_if.is_some());
        let others;
        let others = if board.nr_nodes() > 1 {
            others = Others::new(run::node_of(board, M::Cpu::id()));
            Some(&others)
        } else {
            None
        };
        let running = Running::new(job, (cut, first.end), (board, helpers), others, &lost);
        let mut shown = Exhibit::new(running);
        let undoes = Undoes(&mut shown);
        let (shown, running) = (&*undoes.0, &undoes.0.what);
        let terms = Terms { seats: helpers, nodes: job.nodes };
        let ((), helped) = board.show(shown, terms, |offer| running.work_as_caller(first, offer));
        if helped.helpers > 0 {
            M::Cpu::with_context(|context| context.add_helper_ns(helped.ns));
            running.work_on_rest();
        }
        undoes.0.what.result().map(|()| Spent { helpers: helped.helpers, helper_ns: helped.ns })
    }

    pub(super) fn board(&self) -> &Board<M::Cpu> {
        &self.hired.as_deref().unwrap_or(&self.nobody).0
    }

    /// Reserves up to `want` helpers under the cap.
    pub(super) fn reserve(&self, want: u32) -> Reserved<'_, M::Cpu> {
        let board = self.board();
        Reserved { board, count: if want > 0 { board.reserve(want) } else { 0 } }
    }
}

/// Helpers under the cap, given back when dropped.
pub(super) struct Reserved<'a, C: Cpu> {
    board: &'a Board<C>,
    count: u32,
}

impl<C: Cpu> Reserved<'_, C> {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Gives back what is more than `count`.
    pub(super) fn keep(&mut self, count: u32) {
        if count < self.count {
            self.board.release(self.count - count);
            self.count = count;
        }
    }
}

impl<C: Cpu> Drop for Reserved<'_, C> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.board.release(self.count);
        }
    }
}

/// Undoes what was done, also where the caller's own chunk unwinds. Outlives every visit.
struct Undoes<'r, 'a, W, E, C: Cpu>(&'r mut Exhibit<Running<'a, W, E, C>, C>)
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync;

impl<W, E, C: Cpu> Drop for Undoes<'_, '_, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    #[inline]
    fn drop(&mut self) {
        self.0.what.undo_if_stopped();
    }
}

impl<M: Machine> fmt::Debug for WorkerPool<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerPool of {}", self.board().nr_cpus())
    }
}
