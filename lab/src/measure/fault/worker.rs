//! What a task of a workload can do.

use super::barrier::Barrier;
use super::counts::{Role, TaskCounts, Timing};
use super::runner::{Length, Setup};
use crate::error::Failure;
use crate::machine::host::without_cpu;
use crate::machine::soft::{FaultHandler, Signal};
use crate::measure::timed_machine::TimedMachine;
use interleaf::object::PagerKey;
use interleaf::space::{AddressSpace, Advice, Error, Fault, MapRequest, ObjectHandle, Sharing};
use interleaf::units::{Access, PAGE_SIZE, VirtAddr, Vpn};
use interleaf::vma::VmaFlags;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::Instant;

/// What the tasks of one run share.
pub struct TaskGroup<'a, 'v> {
    pub space: &'a AddressSpace<'v, TimedMachine>,
    pub setup: &'a Setup,
    pub barrier: Barrier,
    /// How many tasks are at work. Relaxed: only the number counts.
    pub working: AtomicUsize,
    /// Rounds begun by the fastest task, for the progress report. Relaxed likewise.
    pub rounds: AtomicU64,
    /// The page that the first task publishes, 0 for none. A barrier lies between writing and reading.
    published: AtomicU64,
}

impl<'a, 'v> TaskGroup<'a, 'v> {
    /// Tasks that begin in `space`.
    pub fn new(space: &'a AddressSpace<'v, TimedMachine>, setup: &'a Setup) -> Self {
        let (barrier, working) = (Barrier::new(setup.threads), AtomicUsize::new(setup.threads));
        Self { space, setup, barrier, working, rounds: AtomicU64::new(0), published: AtomicU64::new(0) }
    }
}

/// A task of a workload, on its CPU.
pub struct Worker<'a, 'v> {
    group: &'a TaskGroup<'a, 'v>,
    machine: &'v TimedMachine,
    index: usize,
    rounds: Cell<u64>,
    started: Cell<Option<Instant>>,
    counts: RefCell<TaskCounts>,
}

impl<'a, 'v> Worker<'a, 'v> {
    /// Task number `index`.
    pub(super) fn new(group: &'a TaskGroup<'a, 'v>, index: usize) -> Self {
        let machine = group.space.vm().machine();
        let counts = RefCell::new(TaskCounts::new(group.setup.timing));
        Self { group, machine, index, rounds: Cell::new(0), started: Cell::new(None), counts }
    }

    /// What it counted.
    pub(super) fn into_counts(self) -> TaskCounts {
        let mut counts = self.counts.into_inner();
        counts.rounds = self.rounds.get();
        counts
    }

    /// Its number, from 0.
    pub fn index(&self) -> u64 {
        self.index as u64
    }

    /// How many tasks there are.
    pub fn nr_workers(&self) -> u64 {
        self.group.setup.threads as u64
    }

    /// How many pages one task is to touch in a round.
    pub fn pages(&self) -> u64 {
        self.group.setup.pages
    }

    /// Says what this task is for; faulting, if nothing is said.
    pub fn set_role(&self, role: Role) {
        self.counts.borrow_mut().role = role;
    }

    /// Begins another round, if there is to be one.
    pub fn next_round(&self) -> bool {
        let started = self.started.get().unwrap_or_else(Instant::now);
        self.started.set(Some(started));
        let rounds = self.rounds.get();
        let ended = match self.group.setup.length {
            Length::Rounds(most) => rounds >= most,
            // At least one round, so that a slow machine has a result too.
            Length::Time(most) => rounds > 0 && started.elapsed() >= most,
        };
        if ended || self.group.barrier.is_aborted() {
            return false;
        }
        self.rounds.set(rounds + 1);
        self.group.rounds.fetch_max(rounds + 1, Relaxed);
        true
    }

    /// Whether another task is still at work.
    pub fn others_running(&self) -> bool {
        let others = self.group.working.load(Relaxed) > 1;
        self.rounds.set(self.rounds.get() + u64::from(others));
        others
    }

    /// Waits for all tasks, without a CPU; false where one has failed.
    pub fn wait(&self) -> bool {
        without_cpu(|| self.group.barrier.wait())
    }

    /// Publishes a page to all tasks; they see it after the next barrier.
    pub fn publish(&self, page: Option<Vpn>) {
        self.group.published.store(page.map_or(0, |page| page.0), Relaxed);
    }

    /// The page that the first task published.
    pub fn published(&self) -> Option<Vpn> {
        let page = self.group.published.load(Relaxed);
        (page != 0).then_some(Vpn(page))
    }

    /// Runs `work` while the clock of this task runs.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn timed(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let start = Instant::now();
        let result = work();
        self.counts.borrow_mut().busy += start.elapsed();
        result
    }

    /// Maps private memory.
    ///
    /// # Errors
    /// What the library says.
    pub fn map(&self, pages: u64) -> Result<Vpn, Failure> {
        let request = MapRequest::anonymous(pages * PAGE_SIZE as u64);
        self.called("map", self.group.space.map(&request)).map(VirtAddr::vpn)
    }

    /// Makes a file of so many pages, which are all in the cache, and dirty.
    ///
    /// # Errors
    /// What the library says.
    pub fn file(&self, pages: u64) -> Result<ObjectHandle<'v, TimedMachine>, Failure> {
        let file = ObjectHandle::paged(self.group.space.vm(), PagerKey(self.index()));
        let file = self.called("open", file)?;
        for page in 0..pages {
            let wrote = file.write_at(page * PAGE_SIZE as u64, &[1]);
            wrote.map_err(|error| Failure::check(format!("task {}: write: {error:?}", self.index)))?;
        }
        Ok(file)
    }

    /// Maps pages of a file from its first one on.
    ///
    /// # Errors
    /// What the library says.
    pub fn map_file(
        &self,
        file: &ObjectHandle<'v, TimedMachine>,
        sharing: Sharing,
        pages: u64,
    ) -> Result<Vpn, Failure> {
        let request = MapRequest { sharing, ..MapRequest::anonymous(pages * PAGE_SIZE as u64) };
        let mapped = self.group.space.map(&request.backed_by(file.at_page(0)));
        self.called("map", mapped).map(VirtAddr::vpn)
    }

    /// Unmaps.
    ///
    /// # Errors
    /// What the library says.
    pub fn unmap(&self, base: Vpn, pages: u64) -> Result<(), Failure> {
        self.called("unmap", self.group.space.unmap(base.addr(), pages * PAGE_SIZE as u64))
    }

    /// Takes the right to write away.
    ///
    /// # Errors
    /// What the library says.
    pub fn protect_read_only(&self, base: Vpn, pages: u64) -> Result<(), Failure> {
        let len_bytes = pages * PAGE_SIZE as u64;
        self.called("protect", self.group.space.protect(base.addr(), len_bytes, VmaFlags::READ))
    }

    /// Gives the contents back; the mapping stays.
    ///
    /// # Errors
    /// What the library says.
    pub fn discard(&self, base: Vpn, pages: u64) -> Result<(), Failure> {
        let len_bytes = pages * PAGE_SIZE as u64;
        self.called("advise", self.group.space.advise(base.addr(), len_bytes, Advice::DontNeed))
    }

    /// Writes to every page, as user code.
    ///
    /// # Errors
    /// The signal that ended it.
    pub fn write_each(&self, base: Vpn, pages: u64) -> Result<(), Failure> {
        for page in 0..pages {
            let addr = base.add(page).addr();
            let wrote = self.machine.write_u64(addr, addr.0, self);
            wrote.map_err(|signal| Failure::check(format!("task {}: {signal} at {addr:?}", self.index)))?;
        }
        Ok(())
    }

    fn called<T>(&self, call: &str, done: Result<T, Error>) -> Result<T, Failure> {
        self.counts.borrow_mut().calls += 1;
        done.map_err(|error| Failure::check(format!("task {}: {call}: {error}", self.index)))
    }
}

impl FaultHandler for Worker<'_, '_> {
    #[inline]
    fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), Signal> {
        let fault = || self.group.space.fault(Fault { addr, access });
        let outcome = match self.group.setup.timing {
            Timing::None => fault(),
            Timing::EachFault => {
                let start = Instant::now();
                let outcome = fault();
                self.counts.borrow_mut().took(start.elapsed());
                outcome
            }
        };
        self.counts.borrow_mut().count(outcome);
        outcome.map(drop).map_err(|_| Signal::Segv)
    }
}
