//! The CPUs of a run, and the steps they take.

use super::policy::{Policy, SwitchHint};
use super::report::{Report, Step, StepKind, Verdict};
use crate::machine::soft::bus::Bus;
use crate::machine::soft::current;
use crate::os::fiber::Ring;
use interleaf::machine::Context;
use interleaf::units::CpuId;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// State of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// It runs, or could.
    Ready,
    /// It sleeps on a word.
    Asleep(usize),
    /// Its program is over; it only handles interrupts.
    Idle,
    /// It has stopped in the middle of its program; it only handles interrupts.
    Stopped,
}

struct CpuState {
    status: Cell<Status>,
    /// Its slot in the set of fibers.
    fiber: Cell<usize>,
    context: Context,
}

/// A run under way, on one host thread.
pub(super) struct Scheduler {
    ring: Rc<Ring>,
    seed: u64,
    limit_steps: u64,
    keep: usize,
    policy: RefCell<Policy>,
    cpus: RefCell<Rc<[CpuState]>>,
    /// The CPUs that can run, at the last choice: kept for its memory.
    ready: RefCell<Vec<usize>>,
    /// The CPU that runs; none outside of [`Scheduler::run`].
    running: Cell<Option<usize>>,
    closing: Cell<bool>,
    steps: Cell<u64>,
    switches: Cell<u64>,
    fingerprint: Cell<u64>,
    last: RefCell<VecDeque<Step>>,
    verdict: RefCell<Option<Verdict>>,
    relaxed_in_panic: Cell<u32>,
    /// The CPU that stops, and the number of its steps that it takes before.
    stop: Cell<Option<(usize, u64)>>,
    /// Whether it has done so.
    has_stopped: Cell<bool>,
}

thread_local! {
    static SCHEDULER: RefCell<Option<Rc<Scheduler>>> = const { RefCell::new(None) };
    /// Whether a CPU runs in the scheduler of this thread: asked at every access, most of which lie before
    /// and after a run.
    static LIVE: Cell<bool> = const { Cell::new(false) };
}

/// Number of waits of a CPU that unwinds before the run is given up.
const RELAXES_IN_PANIC: u32 = 1000;

impl Scheduler {
    pub(super) fn new(seed: u64, limit_steps: u64, keep: usize) -> Rc<Self> {
        Rc::new(Self {
            ring: Ring::new(),
            seed,
            limit_steps,
            keep,
            policy: RefCell::new(Policy::new(seed, 1)),
            cpus: RefCell::new(Rc::new([])),
            ready: RefCell::default(),
            running: Cell::new(None),
            closing: Cell::new(false),
            steps: Cell::new(0),
            switches: Cell::new(0),
            fingerprint: Cell::new(0),
            last: RefCell::new(VecDeque::new()),
            verdict: RefCell::new(None),
            relaxed_in_panic: Cell::new(0),
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

    /// Runs a scenario on a fiber of its own and returns its report. Fibers that cannot go on are never
    /// resumed.
    pub(super) fn run_scenario(self: &Rc<Self>, scenario: Box<dyn FnOnce()>) -> Report {
        SCHEDULER.set(Some(self.clone()));
        let scheduler = self.clone();
        let whole = move || {
            let verdict = match catch_unwind(AssertUnwindSafe(scenario)) {
                Ok(()) => Verdict::Passed,
                Err(panic) => Verdict::Failed { cpu: None, message: message(&*panic) },
            };
            scheduler.verdict.borrow_mut().get_or_insert(verdict);
        };
        let schedule = self.ring.spawn(Box::new(whole)).expect("a stack for the scenario");
        self.ring.switch_to(schedule);
        LIVE.set(false);
        SCHEDULER.set(None);
        self.report()
    }

    fn report(&self) -> Report {
        Report {
            seed: self.seed,
            verdict: self.verdict.take().expect("a run ends with a verdict"),
            steps: self.steps.get(),
            switches: self.switches.get(),
            stopped: self.has_stopped.get(),
            fingerprint: self.fingerprint.get(),
            last: self.last.take().into(),
            nr_cpus: self.cpus.borrow().len() as u32,
        }
    }

    /// From now on CPU `cpu` stops once it has taken `steps` more, at a step where its interrupts are on; it
    /// goes on when all other CPUs have come to their ends.
    pub(super) fn stop_at(&self, cpu: usize, steps: u64) {
        self.stop.set(Some((cpu, steps)));
    }

    /// Runs a program on each CPU of a machine, from CPU 0, until all have come to their ends.
    pub(super) fn run(self: &Rc<Self>, bus: &Arc<Bus>, programs: Vec<Box<dyn FnOnce() + '_>>) {
        let cpu =
            |_| CpuState { status: Cell::new(Status::Ready), fiber: Cell::new(0), context: Context::new() };
        let nr_cpus = programs.len();
        self.cpus.replace((0..nr_cpus).map(cpu).collect());
        // The steps so far make the choices of a second run in one scenario differ from those of the first.
        self.policy.replace(Policy::new(self.seed.wrapping_add(self.steps.get() << 32), nr_cpus));
        let fiber = |(cpu, program)| -> Box<dyn FnOnce() + '_> {
            let (scheduler, bus) = (self.clone(), bus.clone());
            Box::new(move || scheduler.live(&bus, cpu, program))
        };
        let fibers = programs.into_iter().enumerate().map(fiber).collect();
        let drive = |slots: &[usize]| {
            let cpus = self.cpus.borrow().clone();
            cpus.iter().zip(slots).for_each(|(cpu, &slot)| cpu.fiber.set(slot));
            self.closing.set(false);
            if let Some(&first) = slots.first() {
                self.set_running(Some(0));
                self.ring.switch_to(first);
            }
            // All are idle: each leaves its CPU in turn.
            self.closing.set(true);
            for (cpu, &slot) in slots.iter().enumerate() {
                self.set_running(Some(cpu));
                self.ring.switch_to(slot);
            }
            self.set_running(None);
        };
        self.ring.scope(fibers, drive).expect("stacks for the CPUs");
    }

    /// The main loop of a CPU: its program, then handling interrupts until all are done.
    fn live(self: &Rc<Self>, bus: &Arc<Bus>, cpu: usize, program: Box<dyn FnOnce() + '_>) {
        current::enter(bus, CpuId(cpu as u32));
        if !self.closing.get() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(program)) {
                self.finish(Verdict::Failed { cpu: Some(CpuId(cpu as u32)), message: message(&*panic) });
            }
            self.note(StepKind::End);
        }
        while !self.closing.get() {
            current::handle_interrupts();
            self.cpus.borrow()[cpu].status.set(Status::Idle);
            self.leave_it(SwitchHint::Yield);
        }
        current::leave();
    }

    /// One step of the running CPU: records it, and lets another run first if the seed says so.
    pub(super) fn step(&self, what: StepKind, hint: SwitchHint) {
        if std::thread::panicking() {
            return self.step_in_panic(what);
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
            self.me(|cpu| cpu.status.set(Status::Asleep(word)));
            self.leave_it(SwitchHint::Yield);
        }
        current::handle_interrupts();
    }

    /// Wakes up to `count` CPUs that sleep on a word, chosen by the seed.
    pub(super) fn wake(&self, word: usize, count: u32) {
        self.step(StepKind::Wake(word), SwitchHint::Stay);
        let cpus = self.cpus.borrow().clone();
        let mut asleep: Vec<_> = cpus.iter().filter(|cpu| cpu.status.get() == Status::Asleep(word)).collect();
        for _ in 0..count.min(asleep.len() as u32) {
            let at = self.policy.borrow_mut().pick(asleep.len());
            asleep.swap_remove(at).status.set(Status::Ready);
        }
    }

    /// A CPU was interrupted: it can run, whatever its state was.
    pub(super) fn raised(&self, cpu: CpuId) {
        if let Some(cpu) = self.cpus.borrow().get(cpu.index()) {
            cpu.status.set(Status::Ready);
        }
        self.step(StepKind::Interrupt(cpu), SwitchHint::Stay);
    }

    /// Calls `f` with the running CPU's context.
    pub(super) fn with_context<R>(&self, f: impl FnOnce(&Context) -> R) -> R {
        let cpus = self.cpus.borrow().clone();
        f(&cpus[self.running.get().expect("a CPU runs")].context)
    }

    /// Nanoseconds of a clock that steps drive.
    pub(super) fn now_ns(&self) -> u64 {
        self.steps.get() * 10
    }

    fn me(&self, f: impl FnOnce(&CpuState)) {
        f(&self.cpus.borrow()[self.running.get().expect("a CPU runs")]);
    }

    /// Counts and records a step; ends the run at the step limit.
    fn note(&self, what: StepKind) {
        let (number, cpu) = (self.steps.get() + 1, self.running.get().expect("a CPU runs"));
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
            self.finish(Verdict::Livelock);
        }
    }

    /// Lets the CPU run that the seed chooses; comes back when it chooses this one again.
    fn leave_it(&self, hint: SwitchHint) {
        let me = self.running.get().expect("a CPU runs");
        let cpus = self.cpus.borrow().clone();
        let mut ready = self.ready.borrow_mut();
        ready.clear();
        ready.extend((0..cpus.len()).filter(|&at| cpus[at].status.get() == Status::Ready));
        if ready.is_empty() {
            drop(ready);
            return self.none_can_run(&cpus);
        }
        let next = self.policy.borrow_mut().choose(&ready, me, hint);
        drop(ready);
        if next != me {
            self.switches.set(self.switches.get() + 1);
            let slot = cpus[next].fiber.get();
            drop(cpus);
            self.go_to(slot, Some(next));
        }
    }

    /// Stops the running CPU, if this is the step, until all others are idle: so no CPU may wait for it, but
    /// for its answers to interrupts.
    fn stop_if_due(&self) {
        let (Some((cpu, left)), me) = (self.stop.get(), self.running.get()) else { return };
        if me != Some(cpu) {
            return;
        }
        if left > 0 || !current::interrupts_on() {
            return self.stop.set(Some((cpu, left.saturating_sub(1))));
        }
        self.has_stopped.set(true);
        while self.stop.get().is_some() {
            current::handle_interrupts();
            self.me(|cpu| cpu.status.set(Status::Stopped));
            self.leave_it(SwitchHint::Yield);
        }
    }

    /// Returns to the scenario if all CPUs are idle, or lets the one go on that has stopped; if one sleeps,
    /// the run is deadlocked.
    fn none_can_run(&self, cpus: &[CpuState]) {
        let asleep = |(at, cpu): (usize, &CpuState)| match cpu.status.get() {
            Status::Asleep(word) => Some((CpuId(at as u32), word)),
            _ => None,
        };
        let sleepers: Vec<_> = cpus.iter().enumerate().filter_map(asleep).collect();
        if !sleepers.is_empty() {
            self.finish(Verdict::Deadlock(sleepers));
        }
        if let Some(stopped) = cpus.iter().position(|cpu| cpu.status.get() == Status::Stopped) {
            self.stop.set(None);
            cpus[stopped].status.set(Status::Ready);
            if self.running.get() != Some(stopped) {
                self.go_to(cpus[stopped].fiber.get(), Some(stopped));
            }
            return;
        }
        self.go_to(SCENARIO_SLOT, None);
    }

    /// Ends the run here. This stack never goes on.
    fn finish(&self, verdict: Verdict) -> ! {
        self.verdict.borrow_mut().get_or_insert(verdict);
        self.go_to(HOST_SLOT, None);
        unreachable!("a run that is over does not go on");
    }

    /// Switches; keeps the binding to the CPU, and which CPU runs, for the way back.
    fn go_to(&self, slot: usize, next: Option<usize>) {
        let me = self.running.get();
        self.set_running(next);
        let suspended = current::suspend();
        self.ring.switch_to(slot);
        current::resume(suspended);
        self.set_running(me);
    }

    fn set_running(&self, cpu: Option<usize>) {
        self.running.set(cpu);
        LIVE.set(cpu.is_some());
    }

    /// While a CPU unwinds no other runs. If it waits for others nevertheless, the run is over.
    fn step_in_panic(&self, what: StepKind) {
        if matches!(what, StepKind::Relax | StepKind::Sleep(_)) {
            self.relaxed_in_panic.set(self.relaxed_in_panic.get() + 1);
            if self.relaxed_in_panic.get() > RELAXES_IN_PANIC {
                let message = "a panic (see above), and then a wait that could not end".to_owned();
                self.finish(Verdict::Failed { cpu: current_cpu(), message });
            }
        }
    }
}

/// The slot of the host thread, which made the scheduler.
const HOST_SLOT: usize = 0;
/// The slot of the scenario.
const SCENARIO_SLOT: usize = 1;

fn current_cpu() -> Option<CpuId> {
    Some(current::binding()).filter(|place| place.machine != 0).map(|place| place.cpu)
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
