//! The CPUs of a run: their fibers, and how a run begins and ends.

use super::{Program, Verdict};
use crate::machine::soft::bus::Bus;
use crate::machine::soft::current;
use crate::os::fiber::Ring;
use interleaf::machine::Context;
use interleaf::units::CpuId;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::LocalKey;

/// State of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Status {
    /// It runs, or could.
    Ready,
    /// It sleeps on a word.
    Asleep(usize),
    /// It spins: nothing that it looks at, the word first, changes meanwhile.
    Spinning(usize),
    /// It computes, away from all that is shared, until its clock.
    Computing,
    /// Its program is over; it only handles interrupts.
    Idle,
    /// It has stopped in the middle of its program; it only handles interrupts.
    Stopped,
}

/// What decides which CPU goes on.
pub(in crate::machine) trait Scheduler: 'static {
    /// The CPUs.
    fn cpus(&self) -> &FiberCpus;

    /// The program of the running CPU has come to its end.
    fn program_ended(&self);

    /// Handles the interrupts of the running CPU, whose program is over, and lets another CPU run. Returns
    /// when there may be more of them, and when the CPU is to leave.
    fn idle(&self);
}

struct FiberCpu {
    status: Cell<Status>,
    /// Its slot in the set of fibers.
    slot: Cell<usize>,
    context: Context,
}

/// CPUs as fibers of one host thread.
pub(in crate::machine) struct FiberCpus {
    ring: Rc<Ring>,
    /// Exchanged where a run begins only.
    cpus: RefCell<Vec<FiberCpu>>,
    /// The CPU that runs; [`NONE`] outside of [`FiberCpus::run`].
    running: Cell<usize>,
    /// Whether a CPU runs on this thread: asked at every access, many of which lie before and after a run.
    live: &'static LocalKey<Cell<bool>>,
    closing: Cell<bool>,
    verdict: RefCell<Option<Verdict>>,
    waits_in_panic: Cell<u32>,
}

const NONE: usize = usize::MAX;
/// The slot of the host thread, which made the scheduler.
const HOST_SLOT: usize = 0;
/// The slot of the scenario.
const SCENARIO_SLOT: usize = 1;
/// Number of waits of a CPU that unwinds before the run is given up.
const WAITS_IN_PANIC: u32 = 1000;

impl FiberCpus {
    /// No CPUs yet. `live` is set while one runs.
    pub(in crate::machine) fn new(live: &'static LocalKey<Cell<bool>>) -> Self {
        Self {
            ring: Ring::new(),
            cpus: RefCell::default(),
            running: Cell::new(NONE),
            live,
            closing: Cell::new(false),
            verdict: RefCell::default(),
            waits_in_panic: Cell::new(0),
        }
    }

    /// Runs a scenario on a fiber of its own, and returns how it ended. Fibers that cannot go on are never
    /// resumed.
    pub(in crate::machine) fn run_scenario<S: Scheduler>(
        scheduler: &Rc<S>,
        scenario: Box<dyn FnOnce()>,
    ) -> Verdict {
        let (cpus, inner) = (scheduler.cpus(), scheduler.clone());
        let whole = move || {
            let verdict = match catch_unwind(AssertUnwindSafe(scenario)) {
                Ok(()) => Verdict::Passed,
                Err(panic) => Verdict::Failed { cpu: None, message: message(&*panic) },
            };
            inner.cpus().verdict.borrow_mut().get_or_insert(verdict);
        };
        let slot = cpus.ring.spawn(Box::new(whole)).expect("a stack for the scenario");
        cpus.ring.switch_to(slot);
        cpus.live.set(false);
        cpus.verdict.take().expect("a run ends with a verdict")
    }

    /// Makes as many CPUs as there will be programs, all ready.
    pub(in crate::machine) fn set_number(&self, nr_cpus: usize) {
        let cpu =
            |_| FiberCpu { status: Cell::new(Status::Ready), slot: Cell::new(0), context: Context::new() };
        self.cpus.replace((0..nr_cpus).map(cpu).collect());
    }

    /// Runs a program on each CPU of a machine, from CPU 0, until all have come to their ends.
    pub(in crate::machine) fn run<S: Scheduler>(
        scheduler: &Rc<S>,
        bus: &Arc<Bus>,
        programs: Vec<Program<'_>>,
    ) {
        let cpus = scheduler.cpus();
        let fiber = |(cpu, program)| -> Program<'_> {
            let (scheduler, bus) = (scheduler.clone(), bus.clone());
            Box::new(move || live(&*scheduler, &bus, cpu, program))
        };
        let fibers = programs.into_iter().enumerate().map(fiber).collect();
        let drive = |slots: &[usize]| {
            cpus.cpus.borrow().iter().zip(slots).for_each(|(cpu, &slot)| cpu.slot.set(slot));
            cpus.closing.set(false);
            if let Some(&first) = slots.first() {
                cpus.set_running(0);
                cpus.ring.switch_to(first);
            }
            // All are idle: each leaves its CPU in turn.
            cpus.closing.set(true);
            for (cpu, &slot) in slots.iter().enumerate() {
                cpus.set_running(cpu);
                cpus.ring.switch_to(slot);
            }
            cpus.set_running(NONE);
        };
        cpus.ring.scope(fibers, drive).expect("stacks for the CPUs");
    }

    /// Number of CPUs.
    #[inline]
    pub(in crate::machine) fn len(&self) -> usize {
        self.cpus.borrow().len()
    }

    /// The CPU that runs.
    #[inline]
    pub(in crate::machine) fn running(&self) -> usize {
        debug_assert_ne!(self.running.get(), NONE, "a CPU runs");
        self.running.get()
    }

    /// The state of a CPU.
    #[inline]
    pub(in crate::machine) fn status(&self, cpu: usize) -> Status {
        self.cpus.borrow()[cpu].status.get()
    }

    /// Sets the state of a CPU; the one before.
    #[inline]
    pub(in crate::machine) fn set_status(&self, cpu: usize, status: Status) -> Status {
        self.cpus.borrow()[cpu].status.replace(status)
    }

    /// Calls `f` with the running CPU's context.
    #[inline]
    pub(in crate::machine) fn with_context<R>(&self, f: impl FnOnce(&Context) -> R) -> R {
        f(&self.cpus.borrow()[self.running()].context)
    }

    /// Lets a CPU run; returns when another lets this one run again.
    #[inline]
    pub(in crate::machine) fn go_to(&self, cpu: usize) {
        let slot = self.cpus.borrow()[cpu].slot.get();
        self.leave_to(slot, cpu);
    }

    /// None can run: returns to the scenario if all CPUs are idle, or have stopped; if one waits, the run is
    /// deadlocked.
    pub(in crate::machine) fn none_can_run(&self) {
        let waits = |(at, cpu): (usize, &FiberCpu)| match cpu.status.get() {
            Status::Asleep(word) | Status::Spinning(word) => Some((CpuId(at as u32), word)),
            _ => None,
        };
        let waiters: Vec<_> = self.cpus.borrow().iter().enumerate().filter_map(waits).collect();
        if !waiters.is_empty() {
            self.finish(Verdict::Deadlock(waiters));
        }
        self.leave_to(SCENARIO_SLOT, NONE);
    }

    /// The first CPU in this state.
    pub(in crate::machine) fn first_that_is(&self, status: Status) -> Option<usize> {
        self.cpus.borrow().iter().position(|cpu| cpu.status.get() == status)
    }

    /// Whether a CPU waits.
    pub(in crate::machine) fn has_waiters(&self) -> bool {
        let waits = |cpu: &FiberCpu| matches!(cpu.status.get(), Status::Asleep(_) | Status::Spinning(_));
        self.cpus.borrow().iter().any(waits)
    }

    /// Ends the run here. This stack never goes on.
    pub(in crate::machine) fn finish(&self, verdict: Verdict) -> ! {
        self.verdict.borrow_mut().get_or_insert(verdict);
        self.leave_to(HOST_SLOT, NONE);
        unreachable!("a run that is over does not go on");
    }

    /// A CPU that unwinds waits. While it unwinds no other runs; if it waits for others nevertheless, the run
    /// is over.
    pub(in crate::machine) fn wait_in_panic(&self) {
        self.waits_in_panic.set(self.waits_in_panic.get() + 1);
        if self.waits_in_panic.get() > WAITS_IN_PANIC {
            let message = "a panic (see above), and then a wait that could not end".to_owned();
            self.finish(Verdict::Failed { cpu: current_cpu(), message });
        }
    }

    /// Switches; keeps the binding to the CPU, and which CPU runs, for the way back.
    fn leave_to(&self, slot: usize, next: usize) {
        let me = self.running.get();
        self.set_running(next);
        let suspended = current::suspend();
        self.ring.switch_to(slot);
        current::resume(suspended);
        self.set_running(me);
    }

    fn set_running(&self, cpu: usize) {
        self.running.set(cpu);
        self.live.set(cpu != NONE);
    }
}

/// The main loop of a CPU: its program, then handling interrupts until all are done.
fn live(scheduler: &impl Scheduler, bus: &Arc<Bus>, cpu: usize, program: Program<'_>) {
    let cpus = scheduler.cpus();
    current::enter(bus, CpuId(cpu as u32));
    if !cpus.closing.get() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(program)) {
            cpus.finish(Verdict::Failed { cpu: Some(CpuId(cpu as u32)), message: message(&*panic) });
        }
        scheduler.program_ended();
    }
    while !cpus.closing.get() {
        scheduler.idle();
    }
    current::leave();
}

fn current_cpu() -> Option<CpuId> {
    Some(current::binding()).filter(|place| place.machine != 0).map(|place| place.cpu)
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
