//! The steps that the CPUs of a run take, and the choice before each.

use super::policy::{Policy, SwitchHint};
use super::report::{Report, Step, StepKind};
use crate::machine::fibers::{FiberCpus, Program, Status, Verdict};
use crate::machine::soft::bus::Bus;
use crate::machine::soft::current;
use interleaf::machine::Context;
use interleaf::units::CpuId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// A run under way, on one host thread.
pub(super) struct Scheduler {
    cpus: FiberCpus,
    seed: u64,
    limit_steps: u64,
    keep: usize,
    policy: RefCell<Policy>,
    /// The CPUs that can run, ascending.
    ready: RefCell<Vec<usize>>,
    steps: Cell<u64>,
    switches: Cell<u64>,
    fingerprint: Cell<u64>,
    last: RefCell<VecDeque<Step>>,
    /// The CPU that stops, and the number of its steps that it takes before.
    stop: Cell<Option<(usize, u64)>>,
    /// Whether it has done so.
    has_stopped: Cell<bool>,
}

thread_local! {
    static SCHEDULER: RefCell<Option<Rc<Scheduler>>> = const { RefCell::new(None) };
    /// Whether a CPU runs in the scheduler of this thread.
    static LIVE: Cell<bool> = const { Cell::new(false) };
}

impl Scheduler {
    pub(super) fn new(seed: u64, limit_steps: u64, keep: usize) -> Rc<Self> {
        Rc::new(Self {
            cpus: FiberCpus::new(&LIVE),
            seed,
            limit_steps,
            keep,
            policy: RefCell::new(Policy::new(seed, 1)),
            ready: RefCell::default(),
            steps: Cell::new(0),
            switches: Cell::new(0),
            fingerprint: Cell::new(0),
            last: RefCell::new(VecDeque::new()),
            stop: Cell::new(None),
            has_stopped: Cell::new(false),
        })
    }

    /// The scheduler of this thread, while it runs CPUs.
    #[inline]
    pub(super) fn running() -> Option<Rc<Self>> {
        if LIVE.get() { Self::of_this_thread() } else { None }
    }

    /// The scheduler of this thread, whether it runs CPUs or not.
    pub(super) fn of_this_thread() -> Option<Rc<Self>> {
        SCHEDULER.with_borrow(Clone::clone)
    }

    /// Runs a scenario, and returns its report.
    pub(super) fn run_scenario(self: &Rc<Self>, scenario: Box<dyn FnOnce()>) -> Report {
        SCHEDULER.set(Some(self.clone()));
        let verdict = FiberCpus::run_scenario(self, scenario);
        SCHEDULER.set(None);
        Report {
            seed: self.seed,
            verdict,
            steps: self.steps.get(),
            switches: self.switches.get(),
            stopped: self.has_stopped.get(),
            fingerprint: self.fingerprint.get(),
            last: self.last.take().into(),
            nr_cpus: self.cpus.len() as u32,
        }
    }

    /// From now on CPU `cpu` stops once it has taken `steps` more, at a step where its interrupts are on; it
    /// goes on when all other CPUs have come to their ends.
    pub(super) fn stop_at(&self, cpu: usize, steps: u64) {
        self.stop.set(Some((cpu, steps)));
    }

    /// Runs a program on each CPU of a machine, from CPU 0, until all have come to their ends.
    pub(super) fn run(self: &Rc<Self>, bus: &Arc<Bus>, programs: Vec<Program<'_>>) {
        let nr_cpus = programs.len();
        self.cpus.set_number(nr_cpus);
        self.ready.replace((0..nr_cpus).collect());
        // The steps so far make the choices of a second run in one scenario differ from those of the first.
        self.policy.replace(Policy::new(self.seed.wrapping_add(self.steps.get() << 32), nr_cpus));
        FiberCpus::run(self, bus, programs);
    }

    /// One step of the running CPU: records it, and lets another run first if the seed says so.
    pub(super) fn step(&self, what: StepKind, hint: SwitchHint) {
        if std::thread::panicking() {
            if matches!(what, StepKind::Relax | StepKind::Sleep(_)) {
                self.cpus.wait_in_panic();
            }
            return;
        }
        self.note(what);
        self.leave_it(hint);
        self.stop_if_due();
        if current::pending() != 0 && self.policy.borrow_mut().interrupts_now() {
            current::handle_interrupts();
        }
    }

    /// Puts the running CPU to sleep on a word, if it still should when its turn comes.
    pub(super) fn sleep(&self, word: usize, should: impl FnOnce() -> bool) {
        self.step(StepKind::Sleep(word), SwitchHint::Stay);
        // An interrupt that came while the CPU was still awake ends the sleep before it begins.
        if should() && current::pending() == 0 {
            self.set_status(self.cpus.running(), Status::Asleep(word));
            self.leave_it(SwitchHint::Yield);
        }
        current::handle_interrupts();
    }

    /// Wakes up to `count` CPUs that sleep on a word, chosen by the seed.
    pub(super) fn wake(&self, word: usize, count: u32) {
        self.step(StepKind::Wake(word), SwitchHint::Stay);
        let sleeps = |&cpu: &usize| self.cpus.status(cpu) == Status::Asleep(word);
        let mut asleep: Vec<_> = (0..self.cpus.len()).filter(sleeps).collect();
        for _ in 0..count.min(asleep.len() as u32) {
            let at = self.policy.borrow_mut().pick(asleep.len());
            self.set_status(asleep.swap_remove(at), Status::Ready);
        }
    }

    /// A CPU was interrupted: it can run, whatever its state was.
    pub(super) fn raised(&self, cpu: CpuId) {
        if cpu.index() < self.cpus.len() {
            self.set_status(cpu.index(), Status::Ready);
        }
        self.step(StepKind::Interrupt(cpu), SwitchHint::Stay);
    }

    /// Calls `f` with the running CPU's context.
    pub(super) fn with_context<R>(&self, f: impl FnOnce(&Context) -> R) -> R {
        self.cpus.with_context(f)
    }

    /// Nanoseconds of a clock that steps drive.
    pub(super) fn now_ns(&self) -> u64 {
        self.steps.get() * 10
    }

    /// Sets the state of a CPU, and whether it is among those that can run.
    fn set_status(&self, cpu: usize, status: Status) {
        let was_ready = self.cpus.set_status(cpu, status) == Status::Ready;
        if was_ready == (status == Status::Ready) {
            return;
        }
        let mut ready = self.ready.borrow_mut();
        match ready.binary_search(&cpu) {
            Ok(at) => drop(ready.remove(at)),
            Err(at) => ready.insert(at, cpu),
        }
    }

    /// Counts and records a step; ends the run at the step limit.
    fn note(&self, what: StepKind) {
        let (number, cpu) = (self.steps.get() + 1, self.cpus.running());
        self.steps.set(number);
        let mixed = self.fingerprint.get().rotate_left(5) ^ what.digest() ^ (cpu as u64) << 56;
        self.fingerprint.set(mixed.wrapping_mul(0x517c_c1b7_2722_0a95));
        let mut last = self.last.borrow_mut();
        if last.len() >= self.keep {
            last.pop_front();
        }
        last.push_back(Step { number, cpu: CpuId(cpu as u32), what });
        drop(last);
        if number >= self.limit_steps {
            self.cpus.finish(Verdict::Livelock);
        }
    }

    /// Lets the CPU run that the seed chooses; comes back when it chooses this one again.
    fn leave_it(&self, hint: SwitchHint) {
        let (me, ready) = (self.cpus.running(), self.ready.borrow());
        if ready.is_empty() {
            drop(ready);
            return self.none_can_run();
        }
        let next = self.policy.borrow_mut().choose(&ready, me, hint);
        drop(ready);
        if next != me {
            self.switches.set(self.switches.get() + 1);
            self.cpus.go_to(next);
        }
    }

    /// Stops the running CPU, if this is the step, until all others are idle: no CPU may wait for it, but for
    /// its answers to interrupts.
    fn stop_if_due(&self) {
        let (Some((cpu, left)), me) = (self.stop.get(), self.cpus.running()) else { return };
        if me != cpu {
            return;
        }
        if left > 0 || !current::interrupts_on() {
            return self.stop.set(Some((cpu, left.saturating_sub(1))));
        }
        self.has_stopped.set(true);
        while self.stop.get().is_some() {
            current::handle_interrupts();
            self.set_status(me, Status::Stopped);
            self.leave_it(SwitchHint::Yield);
        }
    }

    /// Lets the CPU go on that has stopped, if no CPU waits; else the run is over.
    fn none_can_run(&self) {
        let stopped = self.cpus.first_that_is(Status::Stopped).filter(|_| !self.cpus.has_waiters());
        let Some(stopped) = stopped else { return self.cpus.none_can_run() };
        self.stop.set(None);
        self.set_status(stopped, Status::Ready);
        if self.cpus.running() != stopped {
            self.cpus.go_to(stopped);
        }
    }
}

impl crate::machine::fibers::Scheduler for Scheduler {
    fn cpus(&self) -> &FiberCpus {
        &self.cpus
    }

    fn program_ended(&self) {
        self.note(StepKind::End);
    }

    fn idle(&self) {
        current::handle_interrupts();
        self.set_status(self.cpus.running(), Status::Idle);
        self.leave_it(SwitchHint::Yield);
    }
}
