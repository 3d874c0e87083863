//! A run: its CPUs, their clocks, and what it notes.

use super::lines::Lines;
use super::machine::MemoryPlan;
use super::order::entry;
use super::park::{LoopRound, Park};
use super::profile::{Costs, Ps};
use super::report::Report;
use super::scenario::Setting;
use super::topology::Topology;
use super::waits::{Wait, Waits};
use crate::machine::fibers::{FiberCpus, Program, Random, Scheduler, Status};
use crate::machine::soft::bus::Bus;
use crate::machine::watch::Place;
use interleaf::machine::Context;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// No interrupt is on its way.
pub(super) const NEVER: Ps = Ps::MAX;

/// What belongs to one CPU. The clock of the CPU that runs is [`Simulation::now`].
pub(super) struct CpuState {
    pub(super) clock: Cell<Ps>,
    ended: Cell<Ps>,
    /// How long it was measured so far, and since when it is.
    measured: Cell<Ps>,
    measured_since: Cell<Option<Ps>>,
    /// When the interrupt arrives that was sent to it, or [`NEVER`].
    pub(super) arrives: Cell<Ps>,
    /// Until then its stores drain.
    pub(super) drained: Cell<Ps>,
    /// From one access to the next; drawn anew for each instruction of a program.
    pub(super) gap: Cell<Ps>,
    random: Cell<Random>,
    /// What it did since it last waited, and between that wait and the one before.
    pub(super) round: Cell<LoopRound>,
    pub(super) previous: Cell<LoopRound>,
    pub(super) park: Cell<Option<Park>>,
    /// The last access, for waits that follow it: line, address and place.
    pub(super) last: Cell<Option<(u32, usize, Place)>>,
}

/// A run under way, on one host thread.
pub(super) struct Simulation {
    pub(super) cpus: FiberCpus,
    pub(super) setting: Setting,
    pub(super) costs: Costs,
    /// Exchanged where a run begins only.
    pub(super) states: RefCell<Vec<CpuState>>,
    pub(super) now: Cell<Ps>,
    /// The earliest clock of another CPU.
    pub(super) horizon: Cell<Ps>,
    /// Beyond it, the running CPU has to look after others or after an interrupt.
    pub(super) limit: Cell<Ps>,
    /// [Entries](entry), the earliest first. An entry whose clock is no longer that of its CPU, or
    /// whose CPU waits, is stale.
    pub(super) heap: RefCell<BinaryHeap<Reverse<u64>>>,
    pub(super) lines: RefCell<Lines>,
    pub(super) waits: RefCell<Waits>,
    /// CPUs that are parked, by the lines that they look at.
    pub(super) watchers: RefCell<BTreeMap<u32, Vec<usize>>>,
    /// CPUs that sleep, by word, the first to sleep first.
    pub(super) sleepers: RefCell<BTreeMap<usize, VecDeque<usize>>>,
    /// Until then the memory of each node is busy.
    pub(super) node_busy_until: RefCell<Vec<Ps>>,
    /// CPUs that have come to where all meet, and how often all have met.
    pub(super) arrived: Cell<usize>,
    pub(super) met: Cell<u64>,
    pub(super) report: RefCell<Report>,
    pub(super) accesses: Cell<u64>,
    pub(super) fingerprint: Cell<u64>,
}

thread_local! {
    static SIMULATION: RefCell<Option<Rc<Simulation>>> = const { RefCell::new(None) };
    /// Whether a CPU runs in the simulation of this thread.
    static LIVE: Cell<bool> = const { Cell::new(false) };
}

impl Simulation {
    pub(super) fn new(setting: Setting) -> Rc<Self> {
        let topology = Topology::new(&setting.costs, 1, setting.placement);
        Rc::new(Self {
            cpus: FiberCpus::new(&LIVE),
            costs: setting.costs,
            lines: RefCell::new(Lines::new(setting.costs, topology, 1, MemoryPlan::default())),
            setting,
            states: RefCell::default(),
            now: Cell::new(0),
            horizon: Cell::new(0),
            limit: Cell::new(0),
            heap: RefCell::default(),
            waits: RefCell::default(),
            watchers: RefCell::default(),
            sleepers: RefCell::default(),
            node_busy_until: RefCell::default(),
            arrived: Cell::new(0),
            met: Cell::new(0),
            report: RefCell::default(),
            accesses: Cell::new(0),
            fingerprint: Cell::new(0),
        })
    }

    /// Makes this the simulation of the thread, until [`remove`](Self::remove).
    pub(super) fn install(self: &Rc<Self>) {
        SIMULATION.set(Some(self.clone()));
    }

    /// Removes the simulation of the thread, but where CPUs of it are suspended for ever: they use it still.
    pub(super) fn remove() {
        SIMULATION.with(|simulation| drop(simulation.try_borrow_mut().map(|mut installed| installed.take())));
    }

    /// The simulation of this thread, whether it runs CPUs or not.
    pub(super) fn of_this_thread() -> Option<Rc<Self>> {
        SIMULATION.with_borrow(Clone::clone)
    }

    /// Calls `f` with the simulation of this thread, while it runs CPUs.
    #[inline]
    pub(super) fn with<R>(f: impl FnOnce(&Simulation) -> R) -> Option<R> {
        if !LIVE.get() {
            return None;
        }
        SIMULATION.with_borrow(|simulation| simulation.as_deref().map(f))
    }

    /// Runs a program on each CPU, from CPU 0, all clocks at 0. `memory` is where the machine's lies.
    pub(super) fn run(
        self: &Rc<Self>,
        bus: &Arc<Bus>,
        memory: MemoryPlan,
        programs: Vec<Program<'_>>,
    ) -> Report {
        self.begin(programs.len(), memory);
        let with_clock = programs.into_iter().enumerate().map(|(cpu, program)| self.with_clock(cpu, program));
        FiberCpus::run(self, bus, with_clock.collect());
        self.take_report()
    }

    /// The program, from the clock of its CPU on.
    fn with_clock<'p>(self: &Rc<Self>, cpu: usize, program: Program<'p>) -> Program<'p> {
        let simulation = self.clone();
        Box::new(move || {
            simulation.resume(cpu);
            program();
        })
    }

    fn begin(&self, nr_cpus: usize, memory: MemoryPlan) {
        let topology = Topology::new(&self.costs, nr_cpus as u32, self.setting.placement);
        self.cpus.set_number(nr_cpus);
        self.states.replace((0..nr_cpus).map(|cpu| self.new_state(cpu)).collect());
        self.heap.replace((1..nr_cpus).map(|cpu| Reverse(entry(0, cpu))).collect());
        self.node_busy_until.replace(vec![0; topology.nr_nodes()]);
        self.lines.replace(Lines::new(self.costs, topology, nr_cpus, memory));
        self.waits.take();
        self.report.take();
        self.accesses.set(0);
        self.fingerprint.set(0);
        self.arrived.set(0);
        self.met.set(0);
    }

    fn new_state(&self, cpu: usize) -> CpuState {
        CpuState {
            clock: Cell::new(0),
            ended: Cell::new(0),
            measured: Cell::new(0),
            measured_since: Cell::new(None),
            arrives: Cell::new(NEVER),
            drained: Cell::new(0),
            gap: Cell::new(self.costs.gap),
            random: Cell::new(Random::new(self.setting.seed ^ (cpu as u64) << 32)),
            round: Cell::new(LoopRound::NEW),
            previous: Cell::new(LoopRound::NEW),
            park: Cell::new(None),
            last: Cell::new(None),
        }
    }

    fn take_report(&self) -> Report {
        let (mut report, lines) = (self.report.take(), self.lines.borrow());
        report.accesses += self.accesses.get();
        report.fingerprint = self.fingerprint.get();
        report.transfers = lines.transfers;
        report.lines = lines.len();
        let states = self.states.borrow();
        report.ended = states.iter().map(|cpu| cpu.ended.get()).collect();
        report.measured = states.iter().map(|cpu| cpu.measured.get()).collect();
        report.waits = self.waits.borrow().list().into_iter().map(|(_, wait)| wait).collect();
        report
    }

    /// Notes a wait of the running CPU, if it is measured.
    pub(super) fn note_wait(&self, (line, addr, place): (u32, usize, Place), note: impl FnOnce(&mut Wait)) {
        if self.is_measured() {
            note(self.waits.borrow_mut().at(line, addr, place));
        }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.states.borrow()[self.cpus.running()].measured_since.get().is_some()
    }

    pub(super) fn begin_measured(&self) {
        self.states.borrow()[self.cpus.running()].measured_since.set(Some(self.now.get()));
    }

    pub(super) fn end_measured(&self) {
        let states = self.states.borrow();
        let cpu = &states[self.cpus.running()];
        let since = cpu.measured_since.take().unwrap_or(self.now.get());
        cpu.measured.set(cpu.measured.get() + self.now.get() - since);
    }

    /// Time passes on the running CPU.
    #[inline]
    pub(super) fn spend(&self, time: Ps) {
        self.now.set(self.now.get() + time);
    }

    /// The gap between accesses is drawn anew, within a tenth of the profile's: real programs do not run in
    /// step either.
    pub(super) fn draw_gap(&self) {
        let states = self.states.borrow();
        let cpu = &states[self.cpus.running()];
        let mut random = cpu.random.get();
        let percent = 100 - JITTER_PERCENT + random.below(2 * JITTER_PERCENT as usize + 1) as Ps;
        cpu.random.set(random);
        cpu.gap.set(self.costs.gap * percent / 100);
        cpu.spoil_round();
    }

    /// The clock of the running CPU. A loop that reads it changes.
    pub(super) fn read_clock(&self) -> Ps {
        self.states.borrow()[self.cpus.running()].spoil_round();
        self.now.get()
    }

    /// Calls `f` with the running CPU's context.
    #[inline]
    pub(super) fn with_context<R>(&self, f: impl FnOnce(&Context) -> R) -> R {
        self.cpus.with_context(f)
    }

    /// Accesses of wait loops that were left out.
    pub(super) fn count_left_out(&self, accesses: u64) {
        self.accesses.set(self.accesses.get() + accesses);
    }
}

/// How far a gap may lie from the profile's.
const JITTER_PERCENT: Ps = 10;

impl CpuState {
    #[inline]
    pub(super) fn spoil_round(&self) {
        let mut round = self.round.get();
        round.spoil();
        self.round.set(round);
    }
}

impl Scheduler for Simulation {
    fn cpus(&self) -> &FiberCpus {
        &self.cpus
    }

    fn program_ended(&self) {
        self.states.borrow()[self.cpus.running()].ended.set(self.now.get());
    }

    fn idle(&self) {
        self.handle_at_arrival();
        self.leave(Status::Idle, None);
    }
}
