//! What a task of a workload can do.

use super::meeting::Meeting;
use super::scene::{Length, Setup};
use super::tally::{Does, Tally, Timing};
use crate::error::Failure;
use crate::machine::host::away;
use crate::machine::soft::{FaultHandler, Signal};
use crate::measure::timed_machine::TimedMachine;
use interleaf::space::{AddressSpace, Advice, Error, Fault, MapRequest};
use interleaf::units::{Access, PAGE_SIZE, VirtAddr, Vpn};
use interleaf::vma::VmaFlags;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::Instant;

/// What the tasks of one run share.
pub struct Crew<'a, 'v> {
    pub space: &'a AddressSpace<'v, TimedMachine>,
    pub setup: &'a Setup,
    pub meeting: Meeting,
    /// How many tasks are at work. Relaxed: only the number counts.
    pub working: AtomicUsize,
    /// Rounds begun by the fastest task, for whoever watches. Relaxed likewise.
    pub rounds: AtomicU64,
    /// The page that the first task shows to all, 0 for none. A meeting lies between writing and reading.
    shown: AtomicU64,
}

impl<'a, 'v> Crew<'a, 'v> {
    /// Tasks that begin in `space`.
    pub fn new(space: &'a AddressSpace<'v, TimedMachine>, setup: &'a Setup) -> Self {
        let (meeting, working) = (Meeting::new(setup.threads), AtomicUsize::new(setup.threads));
        Self { space, setup, meeting, working, rounds: AtomicU64::new(0), shown: AtomicU64::new(0) }
    }
}

/// A task of a workload, on its CPU.
pub struct Worker<'a, 'v> {
    crew: &'a Crew<'a, 'v>,
    machine: &'v TimedMachine,
    index: usize,
    rounds: Cell<u64>,
    started: Cell<Option<Instant>>,
    tally: RefCell<Tally>,
}

impl<'a, 'v> Worker<'a, 'v> {
    /// Task number `index`.
    pub(super) fn new(crew: &'a Crew<'a, 'v>, index: usize) -> Self {
        let machine = crew.space.vm().machine();
        let tally = RefCell::new(Tally::new(crew.setup.timing));
        Self { crew, machine, index, rounds: Cell::new(0), started: Cell::new(None), tally }
    }

    /// What it counted.
    pub(super) fn into_tally(self) -> Tally {
        let mut tally = self.tally.into_inner();
        tally.rounds = self.rounds.get();
        tally
    }

    /// Its number, from 0.
    pub fn index(&self) -> u64 {
        self.index as u64
    }

    /// How many tasks there are.
    pub fn nr_workers(&self) -> u64 {
        self.crew.setup.threads as u64
    }

    /// How many pages one task is to touch in a round.
    pub fn pages(&self) -> u64 {
        self.crew.setup.pages
    }

    /// Says what this task is for; faulting, if nothing is said.
    pub fn does(&self, does: Does) {
        self.tally.borrow_mut().does = does;
    }

    /// Begins another round, if there is to be one.
    pub fn goes_on(&self) -> bool {
        let started = self.started.get().unwrap_or_else(Instant::now);
        self.started.set(Some(started));
        let rounds = self.rounds.get();
        let ended = match self.crew.setup.length {
            Length::Rounds(most) => rounds >= most,
            // One round is the least, else a slow machine would have nothing to show.
            Length::Time(most) => rounds > 0 && started.elapsed() >= most,
        };
        if ended || self.crew.meeting.is_broken() {
            return false;
        }
        self.rounds.set(rounds + 1);
        self.crew.rounds.fetch_max(rounds + 1, Relaxed);
        true
    }

    /// Whether another task is still at work.
    pub fn others_work(&self) -> bool {
        let others = self.crew.working.load(Relaxed) > 1;
        self.rounds.set(self.rounds.get() + u64::from(others));
        others
    }

    /// Waits for all tasks, without a CPU; false where one has failed.
    pub fn meet(&self) -> bool {
        away(|| self.crew.meeting.meet())
    }

    /// Shows a page to all tasks; they see it after the next meeting.
    pub fn show(&self, page: Option<Vpn>) {
        self.crew.shown.store(page.map_or(0, |page| page.0), Relaxed);
    }

    /// What the first task showed.
    pub fn shown(&self) -> Option<Vpn> {
        let page = self.crew.shown.load(Relaxed);
        (page != 0).then_some(Vpn(page))
    }

    /// Does `work` while the clock of this task runs.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn timed(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let start = Instant::now();
        let result = work();
        self.tally.borrow_mut().busy += start.elapsed();
        result
    }

    /// Maps private memory.
    ///
    /// # Errors
    /// What the library says.
    pub fn map(&self, pages: u64) -> Result<Vpn, Failure> {
        let request = MapRequest::anonymous(pages * PAGE_SIZE as u64);
        self.called("map", self.crew.space.map(&request)).map(VirtAddr::vpn)
    }

    /// Unmaps.
    ///
    /// # Errors
    /// What the library says.
    pub fn unmap(&self, base: Vpn, pages: u64) -> Result<(), Failure> {
        self.called("unmap", self.crew.space.unmap(base.addr(), pages * PAGE_SIZE as u64))
    }

    /// Takes the right to write away.
    ///
    /// # Errors
    /// What the library says.
    pub fn protect_read_only(&self, base: Vpn, pages: u64) -> Result<(), Failure> {
        let len_bytes = pages * PAGE_SIZE as u64;
        self.called("protect", self.crew.space.protect(base.addr(), len_bytes, VmaFlags::READ))
    }

    /// Gives the contents back; the mapping stays.
    ///
    /// # Errors
    /// What the library says.
    pub fn forget(&self, base: Vpn, pages: u64) -> Result<(), Failure> {
        let len_bytes = pages * PAGE_SIZE as u64;
        self.called("advise", self.crew.space.advise(base.addr(), len_bytes, Advice::DontNeed))
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
        self.tally.borrow_mut().calls += 1;
        done.map_err(|error| Failure::check(format!("task {}: {call}: {error}", self.index)))
    }
}

impl FaultHandler for Worker<'_, '_> {
    #[inline]
    fn fault(&self, addr: VirtAddr, access: Access) -> Result<(), Signal> {
        let fault = || self.crew.space.fault(Fault { addr, access });
        let outcome = match self.crew.setup.timing {
            Timing::None => fault(),
            Timing::EachFault => {
                let start = Instant::now();
                let outcome = fault();
                self.tally.borrow_mut().took(start.elapsed());
                outcome
            }
        };
        self.tally.borrow_mut().count(outcome);
        outcome.map(drop).map_err(|_| Signal::Segv)
    }
}
