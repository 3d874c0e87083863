//! Wait loops, sleep, interrupts, and where all CPUs meet.

use super::park::{LoopRound, Park};
use super::profile::Ps;
use super::scenario::Parking;
use super::simulation::{NEVER, Simulation};
use crate::machine::fibers::Status;
use crate::machine::soft::current;
use interleaf::units::CpuId;

/// The word on which CPUs sleep that wait for all others: no address.
const MEETING: usize = 0;

impl Simulation {
    /// Waits for at most `limit` rounds of a wait loop; how many have passed.
    pub(super) fn spin(&self, limit: u32) -> u32 {
        if std::thread::panicking() {
            current::handle_interrupts();
            self.cpus.wait_in_panic();
            return 1;
        }
        let (began, me) = (self.now.get(), self.cpus.running());
        let states = self.states.borrow();
        let cpu = &states[me];
        let round = cpu.round.replace(LoopRound::NEW);
        let repeats = cpu.previous.replace(round) == round && self.setting.parking == Parking::Exact;
        let lines = round.repeatable().filter(|_| repeats && limit > 1 && cpu.arrives.get() == NEVER);
        let rounds = match lines {
            Some(lines) => {
                let park = Park { round, began, pause: self.costs.pause, gap: cpu.gap.get() };
                let rounds = self.park(me, park, limit);
                self.count_left_out((rounds - 1) * lines.len() as u64);
                rounds as u32
            }
            None => {
                self.spend(self.costs.pause);
                1
            }
        };
        self.report.borrow_mut().rounds += u64::from(rounds);
        if let Some(last) = cpu.last.get() {
            self.note_wait(last, |wait| wait.spun += Ps::from(rounds) * self.costs.pause);
        }
        if self.now.get() > self.horizon.get() {
            self.look_after_others(0);
        }
        self.handle_if_due();
        rounds
    }

    /// Parks the running CPU until a line that it looks at is written, an interrupt comes, or `limit` rounds
    /// have passed; how many have.
    fn park(&self, me: usize, park: Park, limit: u32) -> u64 {
        let lines = park.round.repeatable().expect("the caller has looked");
        for &line in lines {
            self.lines.borrow_mut().watch(line);
            self.watchers.borrow_mut().entry(line).or_default().push(me);
        }
        let wakes_at = (limit != u32::MAX).then(|| park.end_of(u64::from(limit) - 1));
        self.states.borrow()[me].park.set(Some(park));
        let word = self.lines.borrow().host_address(lines[0]);
        self.leave(Status::Spinning(word), wakes_at);
        self.states.borrow()[me].park.set(None);
        for line in lines {
            if let Some(watchers) = self.watchers.borrow_mut().get_mut(line) {
                watchers.retain(|&cpu| cpu != me);
            }
        }
        park.rounds_at(self.now.get())
    }

    /// A line was written at `written` that CPUs look at in loops: each goes on in the round that meets it.
    #[cold]
    pub(super) fn unpark_watchers(&self, line: u32, written: Ps, writer: u32) {
        let watchers = self.watchers.borrow_mut().remove(&line).unwrap_or_default();
        for cpu in watchers {
            let states = self.states.borrow();
            let (state, status) = (&states[cpu], self.cpus.status(cpu));
            let Some(park) = state.park.get().filter(|_| matches!(status, Status::Spinning(_))) else {
                continue;
            };
            let clock = park.end_of(park.round_after_write(line, cpu as u32, written, writer));
            // Without a limit it is not in the heap; with one it may be there with an earlier clock.
            if !self.is_in_heap(cpu) || clock < state.clock.get() {
                self.cpus.set_status(cpu, Status::Ready);
                self.make_ready_at(cpu, clock);
            }
        }
    }

    /// Whether a parked CPU goes on by itself.
    fn is_in_heap(&self, cpu: usize) -> bool {
        let states = self.states.borrow();
        let state = &states[cpu];
        state.park.get().is_some_and(|park| state.clock.get() > park.began)
    }

    /// Handles an interrupt that has arrived.
    pub(super) fn handle_if_due(&self) {
        let arrives = self.states.borrow()[self.cpus.running()].arrives.get();
        if arrives <= self.now.get() && current::interrupts_on() {
            self.handle_at_arrival();
        }
    }

    /// Handles the interrupt that was sent, when it arrives.
    pub(super) fn handle_at_arrival(&self) {
        if !current::interrupts_on() {
            return;
        }
        let arrives = self.states.borrow()[self.cpus.running()].arrives.replace(NEVER);
        if current::pending() != 0 {
            let arrived = if arrives == NEVER { 0 } else { arrives };
            self.now.set(self.now.get().max(arrived) + self.costs.ipi_handle);
            current::handle_interrupts();
        }
        self.set_limit();
    }

    /// Between two instructions of a program.
    #[inline]
    pub(super) fn boundary(&self) {
        self.draw_gap();
        if self.is_due() {
            self.look_after_others(self.setting.slack);
        }
    }

    /// The running CPU computes for some time, away from all that is shared; it handles interrupts meanwhile.
    pub(super) fn pass(&self, time: Ps) {
        let (me, end) = (self.cpus.running(), self.now.get() + time);
        self.states.borrow()[me].spoil_round();
        self.handle_if_due();
        while self.now.get() < end {
            // An interrupt may be on its way already.
            let arrives = self.states.borrow()[me].arrives.get().max(self.now.get());
            self.leave(Status::Computing, Some(end.min(arrives)));
            self.handle_if_due();
        }
    }

    /// Puts the running CPU to sleep on a word, if it still should once it is there.
    pub(super) fn sleep(&self, word: usize, should: impl Fn() -> bool) {
        if std::thread::panicking() {
            return self.cpus.wait_in_panic();
        }
        self.spend(self.costs.sleep);
        if self.now.get() > self.horizon.get() {
            self.look_after_others(0);
        }
        if !should() {
            return self.handle_if_due();
        }
        if current::pending() != 0 {
            // An interrupt that comes while the CPU is still awake ends the sleep before it begins.
            return self.handle_at_arrival();
        }
        self.report.borrow_mut().sleeps += 1;
        self.sleep_on(word);
        self.handle_if_due();
    }

    fn sleep_on(&self, word: usize) {
        let (me, began) = (self.cpus.running(), self.now.get());
        self.states.borrow()[me].spoil_round();
        self.sleepers.borrow_mut().entry(word).or_default().push_back(me);
        self.leave(Status::Asleep(word), None);
        let last = self.states.borrow()[me].last.get();
        if let Some((_, _, place)) = last.filter(|_| word != MEETING) {
            let line = self.lines.borrow_mut().number(word);
            self.note_wait((line, word, place), |wait| wait.slept += self.now.get() - began);
        }
    }

    /// Wakes up to `count` CPUs that sleep on a word, the first to sleep first.
    pub(super) fn wake(&self, word: usize, count: u32) {
        if std::thread::panicking() {
            return;
        }
        if self.now.get() > self.horizon.get() {
            self.look_after_others(0);
        }
        for _ in 0..count {
            let sleeper = self.sleepers.borrow_mut().get_mut(&word).and_then(|queue| queue.pop_front());
            let Some(cpu) = sleeper else { return };
            self.spend(self.costs.wake);
            self.end_sleep(cpu, self.now.get() + self.costs.wake_latency);
        }
    }

    /// A CPU that waits without a clock goes on at `clock`, or when it began to wait, if that is later.
    fn end_sleep(&self, cpu: usize, clock: Ps) {
        let since = self.states.borrow()[cpu].clock.get();
        self.cpus.set_status(cpu, Status::Ready);
        self.make_ready_at(cpu, since.max(clock));
    }

    /// The line of a CPU was raised: an interrupt is on its way.
    pub(super) fn raised(&self, cpu: CpuId) {
        self.report.borrow_mut().interrupts += 1;
        self.spend(self.costs.ipi_send);
        let (cpu, arrives) = (cpu.index(), self.now.get() + self.costs.ipi_deliver);
        let states = self.states.borrow();
        let Some(state) = states.get(cpu) else { return };
        state.arrives.set(state.arrives.get().min(arrives));
        match self.cpus.status(cpu) {
            Status::Ready | Status::Stopped => self.set_limit(),
            Status::Asleep(word) => {
                let mut sleepers = self.sleepers.borrow_mut();
                sleepers.entry(word).or_default().retain(|&sleeper| sleeper != cpu);
                drop(sleepers);
                self.end_sleep(cpu, arrives);
            }
            Status::Idle => self.end_sleep(cpu, arrives),
            Status::Computing if arrives < state.clock.get() => self.make_ready_at(cpu, arrives),
            Status::Computing => {}
            // A write to what it looks at may still come first.
            Status::Spinning(_) => {
                let park = state.park.get().expect("it is parked");
                let clock = park.end_of(park.round_before(arrives));
                if !self.is_in_heap(cpu) || clock < state.clock.get() {
                    self.make_ready_at(cpu, clock);
                }
            }
        }
    }

    /// Interrupts all other CPUs without a handler, and waits until each has passed a fence.
    pub(super) fn barrier_all(&self) {
        let others = self.cpus.len() as Ps - 1;
        self.spend(others * self.costs.ipi_send);
        if others > 0 {
            self.spend(self.costs.ipi_deliver + self.costs.ipi_handle);
        }
        if self.now.get() > self.horizon.get() {
            self.look_after_others(0);
        }
    }

    /// Waits, at no cost, until all CPUs have come here; from there on all have the clock of the last.
    pub(super) fn meet(&self) {
        let (met, arrived) = (self.met.get(), self.arrived.get() + 1);
        self.arrived.set(arrived % self.cpus.len());
        if arrived < self.cpus.len() {
            while self.met.get() == met {
                self.sleep_on(MEETING);
                self.handle_at_arrival();
            }
            return;
        }
        self.met.set(met + 1);
        let waiting = self.sleepers.borrow_mut().remove(&MEETING).unwrap_or_default();
        waiting.into_iter().for_each(|cpu| self.end_sleep(cpu, self.now.get()));
    }
}
