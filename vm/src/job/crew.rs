//! The helpers of a machine.

use super::plan::Cut;
use super::run::{Posts, Running};
use super::share::Share;
use super::value::{Chunk, Failed, Job, Spent};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU32, Ordering::*};
use crate::sync::board::{Board, Patience};
use crate::sync::{Carve, Enlisted, Help};
use crate::units::{CpuId, NodeMask};
use core::fmt;

/// The helpers of a machine, as far as there are any, and what they do: jobs.
pub struct Crew<'m, M: Machine> {
    machine: &'m M,
    hired: Option<Enlisted<'m, M, Program<M::Cpu>>>,
    /// In place of hired ones.
    nobody: Program<M::Cpu>,
}

/// What helpers run.
struct Program<C: Cpu> {
    posts: Posts<C>,
    /// So many helpers may work at once.
    most: AtomicU32<C>,
    /// So many do, or are claimed to.
    at_work: AtomicU32<C>,
}

impl<M: Machine> Help<M> for Program<M::Cpu> {
    fn help(&self, _: &M) {
        self.posts.serve();
    }
    fn dismiss(&self) {
        self.posts.close();
    }
}

impl<C: Cpu> Program<C> {
    const fn new(posts: Posts<C>) -> Self {
        Self { posts, most: AtomicU32::new(u32::MAX), at_work: AtomicU32::new(0) }
    }

    /// Reserves up to `want` helpers under the cap; to be given back with [`Program::release`].
    fn reserve(&self, want: u32) -> u32 {
        let most = self.most.load(Relaxed);
        let granted = |at_work: u32| want.min(most.saturating_sub(at_work));
        // Relaxed: a count, which orders nothing.
        self.at_work
            .update(Relaxed, Relaxed, |at_work| Some(at_work + granted(at_work)).filter(|&sum| sum > at_work))
            .map_or(0, granted)
    }

    fn release(&self, reserved: u32) {
        self.at_work.fetch_sub(reserved, Relaxed);
    }
}

impl<'m, M: Machine> Crew<'m, M> {
    /// A crew without helpers: callers do their jobs alone.
    pub fn alone(machine: &'m M) -> Self {
        Self { machine, hired: None, nobody: Program::new(Board::empty()) }
    }

    /// Has the machine's helpers wait for jobs, until this is dropped. One crew at a time. `None` where the memory does not
    /// suffice: 256 bytes for each CPU and a few more.
    pub fn hire(machine: &'m M, from: &mut impl Carve) -> Option<Self> {
        let posts = Board::carve(from, machine.nr_cpus(), |cpu| machine.node_of(cpu), Share::new)?;
        let hired = Enlisted::enlist(machine, from, Program::new(posts))?;
        Some(Self { hired: Some(hired), ..Self::alone(machine) })
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// Lets at most so many helpers work at once, for all jobs together; those at work stay there.
    pub fn set_most(&self, most: u32) {
        // Relaxed: nothing hangs on when it is seen.
        self.program().most.store(most, Relaxed);
    }

    /// How long helpers without work, and callers whose helpers have not finished, look again before they sleep.
    pub fn set_patience(&self, patience: Patience) {
        self.program().posts.set_patience(patience);
    }

    /// Whether a helper waits, or works, on `cpu`; stale at once.
    pub fn has_helper_racy(&self, cpu: CpuId) -> bool {
        self.program().posts.is_served_racy(cpu)
    }

    /// Has the helper of `cpu` go, for good or until the platform has it help again: before the CPU is taken offline. Waits for the
    /// chunk that it is in; what else it had to do is done by others.
    pub fn dismiss(&self, cpu: CpuId) {
        self.program().posts.dismiss(cpu);
    }

    /// Does the job; the caller works too. Returns when the whole range is done, or when nobody works on it any more and what was
    /// done is undone (where the job says how).
    ///
    /// The caller may sleep: it holds no spin lock and is in no RCU read section. What else it holds, its helpers hold for the lock
    /// ladder too. Chunks may run jobs of their own.
    ///
    /// # Errors
    /// Why the job is not done. A panic of the caller's own chunk goes on through this call, after the undoing.
    pub fn run<E: Send, W>(&self, job: &Job<'_, W>) -> Result<Spent, Failed<E>>
    where
        W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
    {
        let Some(cut) = Cut::new(job) else { return Ok(Spent::default()) };
        let program = self.program();
        let want = (cut.most_workers - 1).min(job.most_helpers).min(program.posts.nr_cpus());
        let mut reserved = self.reserve(want);
        let mut claimed = program.posts.claim(reserved.count(), self.candidates(job.nodes));
        reserved.keep(claimed.cpus().count());
        let running = Running::new(job, &cut, &program.posts, *claimed.cpus());
        let undoes = Undoes(&running);
        if !claimed.cpus().is_empty() {
            claimed.lend(&running, || running.work_as_caller());
        }
        // Alone, or what a helper left behind that had paused.
        running.work_as_caller();
        drop(undoes);
        let spent = Spent { helpers: claimed.cpus().count(), helper_ns: claimed.spent_ns() };
        M::Cpu::with_context(|context| context.was_helped(spent.helper_ns));
        drop(claimed);
        running.result().map(|()| spent)
    }

    pub(super) fn posts(&self) -> &Posts<M::Cpu> {
        &self.program().posts
    }

    /// Reserves up to `want` helpers under the cap.
    pub(super) fn reserve(&self, want: u32) -> Reserved<'_, M::Cpu> {
        let program = self.program();
        Reserved { program, count: if want > 0 { program.reserve(want) } else { 0 } }
    }

    fn program(&self) -> &Program<M::Cpu> {
        self.hired.as_deref().unwrap_or(&self.nobody)
    }

    /// The CPUs whose helpers may be asked, from the one behind this on; this one has work already.
    fn candidates(&self, nodes: NodeMask) -> impl Iterator<Item = CpuId> {
        let (me, posts) = (M::Cpu::id().0, &self.program().posts);
        let round = (me.saturating_add(1)..posts.nr_cpus()).chain(0..me.min(posts.nr_cpus()));
        round.map(CpuId).filter(move |&cpu| nodes.contains(posts.node_of(cpu)))
    }
}

/// Helpers under the cap, given back when dropped.
pub(super) struct Reserved<'a, C: Cpu> {
    program: &'a Program<C>,
    count: u32,
}

impl<C: Cpu> Reserved<'_, C> {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Gives back what is more than `count`.
    pub(super) fn keep(&mut self, count: u32) {
        if count < self.count {
            self.program.release(self.count - count);
            self.count = count;
        }
    }
}

impl<C: Cpu> Drop for Reserved<'_, C> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.program.release(self.count);
        }
    }
}

/// Undoes what was done, also where the caller's own chunk unwinds. Outlives every visit.
struct Undoes<'a, 'b, W, E, C: Cpu>(&'a Running<'b, W, E, C>)
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync;

impl<W, E, C: Cpu> Drop for Undoes<'_, '_, W, E, C>
where
    E: Send,
    W: Fn(&Chunk<'_>) -> Result<(), E> + Sync,
{
    fn drop(&mut self) {
        self.0.undo_if_stopped();
    }
}

impl<M: Machine> fmt::Debug for Crew<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Crew of {}", self.program().posts.nr_cpus())
    }
}
