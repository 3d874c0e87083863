//! Rules of interrupts between CPUs, and of the barrier.

use super::{Harness, RUNS, Rule, Suite};
use crate::machine::{Callback, Cpu, Machine};
use crate::units::CpuMask;
use core::sync::atomic::{AtomicU32, Ordering::*, compiler_fence};

/// Number of times that CPUs 0 and 1 have run the handler, for runs that may be under way at once. A static,
/// because the handler gets a number, not a reference.
static CALLS: [[AtomicU32; 2]; RUNS] = [const { [const { AtomicU32::new(0) }; 2] }; RUNS];
/// The handler's data is this and the number of the run.
const DATA: usize = 0x1F_2E00;

/// The counts of the run of this number.
#[derive(Clone, Copy)]
pub(super) struct HandlerCounts(pub(super) usize);

impl HandlerCounts {
    fn of(self, cpu: u32) -> u32 {
        CALLS[self.0][cpu as usize].load(SeqCst)
    }
}

fn handle<M: Machine>(_: &M, data: usize) {
    let run = data.checked_sub(DATA).and_then(|run| CALLS.get(run));
    if let Some(count) = run.and_then(|counts| counts.get(M::Cpu::id().index())) {
        count.fetch_add(1, SeqCst);
    }
}

/// Times that a sleeping CPU is interrupted.
const SLEEPS: u32 = 5;

/// A word on cache lines of its own.
#[repr(align(128))]
struct PaddedWord(AtomicU32);

impl<M: Machine, H: Harness<M> + Sync> Suite<'_, M, H> {
    pub(super) fn interrupts(&self, counts: HandlerCounts) {
        let callback = Callback { call: handle::<M>, data: DATA + counts.0 };
        // SAFETY: the function is safe, whatever its data.
        self.check(Rule::InterruptReaches, unsafe { self.machine.set_interrupt_handler(Some(callback)) });
        if self.machine.nr_cpus() > 1 {
            // SAFETY: as above.
            let is_replaced = unsafe { self.machine.set_interrupt_handler(Some(callback)) };
            self.check(Rule::HandlerOwned, !is_replaced);
        }
        self.targets(counts);
        self.relax_handles(counts);
        self.sleeper(counts);
        self.off_defers(counts);
        // SAFETY: no function is set.
        let _removed = unsafe { self.machine.set_interrupt_handler(None) };
        self.handler_removed(counts);
        self.barrier();
    }

    /// CPU 0 interrupts every set of the two CPUs in turn.
    fn targets(&self, counts: HandlerCounts) {
        let meetings = AtomicU32::new(0);
        self.on_two_cpus(|me| {
            let mut meet = self.meeting(&meetings);
            for set in [0b01, 0b10, 0b11, 0b00, 0b10] {
                let hit = |cpu: u32| set >> cpu & 1 == 1;
                let before = [counts.of(0), counts.of(1)];
                meet();
                if me == 0 {
                    self.machine.interrupt(&CpuMask::from_words([set]));
                }
                meet();
                let reached = !hit(me) || self.wait(|| counts.of(me) > before[me as usize]);
                self.check(Rule::InterruptReaches, reached);
                meet();
                for cpu in 0..2 {
                    self.check(Rule::InterruptSpares, hit(cpu) || counts.of(cpu) == before[cpu as usize]);
                }
                meet();
            }
        });
    }

    /// Each CPU waits until the other has handled its interrupt.
    fn relax_handles(&self, counts: HandlerCounts) {
        let meetings = AtomicU32::new(0);
        self.on_two_cpus(|me| {
            let mut meet = self.meeting(&meetings);
            let other = 1 - me;
            let target = CpuMask::from_words([1 << other]);
            for _ in 0..10 {
                let before = counts.of(other);
                meet();
                self.machine.interrupt(&target);
                self.check(Rule::RelaxHandles, self.wait(|| counts.of(other) > before));
                self.check(Rule::RelaxHandles, counts.of(other) == before + 1);
                meet();
            }
        });
    }

    /// CPU 0 interrupts CPU 1 while its thread sleeps: the CPU idles, runs another thread, or has none. It
    /// handles the interrupt before the sleeper goes on, at the latest.
    fn sleeper(&self, counts: HandlerCounts) {
        let (meetings, word) = (AtomicU32::new(0), AtomicU32::new(0));
        self.on_two_cpus(|me| {
            let mut meet = self.meeting(&meetings);
            for round in 1..=SLEEPS {
                let before = counts.of(1);
                meet();
                if me == 1 {
                    while word.load(SeqCst) < round {
                        M::Cpu::sleep(&word, round - 1);
                    }
                    self.check(Rule::InterruptWakes, self.wait(|| counts.of(1) > before));
                } else {
                    // Time for the other CPU to fall asleep.
                    (0..1000).for_each(|_| M::Cpu::relax());
                    self.machine.interrupt(&CpuMask::from_words([0b10]));
                    word.store(round, SeqCst);
                    M::Cpu::wake(&word, 1);
                }
                meet();
            }
        });
    }

    fn off_defers(&self, counts: HandlerCounts) {
        let meetings = AtomicU32::new(0);
        self.on_two_cpus(|me| {
            let mut meet = self.meeting(&meetings);
            if me == 0 {
                meet();
                self.machine.interrupt(&CpuMask::from_words([0b10]));
                meet();
                return;
            }
            let before = counts.of(1);
            let state = M::Cpu::interrupts_off();
            meet();
            meet();
            (0..100).for_each(|_| M::Cpu::relax());
            self.check(Rule::OffDefers, counts.of(1) == before);
            // SAFETY: the one that is not restored.
            unsafe { M::Cpu::interrupts_restore(state) };
            self.check(Rule::OffDefers, self.wait(|| counts.of(1) > before));
        });
    }

    fn handler_removed(&self, counts: HandlerCounts) {
        let meetings = AtomicU32::new(0);
        self.on_two_cpus(|me| {
            let mut meet = self.meeting(&meetings);
            let before = counts.of(me);
            meet();
            if me == 0 {
                self.machine.interrupt(&CpuMask::from_words([0b11]));
            }
            meet();
            (0..100).for_each(|_| M::Cpu::relax());
            self.check(Rule::HandlerRemoved, counts.of(me) == before);
        });
    }

    /// Store buffering: CPU 0 stores and loads with only a compiler fence between, CPU 1 with the barrier
    /// between. If both miss the other's store, the barrier has no effect. Each round tries [`TRIES`]
    /// pairs of words in a row, as two CPUs that start together drift past each other. Rounds in which one
    /// CPU's tries lay before the other's prove nothing.
    fn barrier(&self) {
        let words = [const { [const { PaddedWord(AtomicU32::new(0)) }; TRIES] }; 2];
        let missed = [const { PaddedWord(AtomicU32::new(0)) }; 2];
        let (meetings, over) = (AtomicU32::new(0), AtomicU32::new(0));
        let (overlaps, rounds) = (AtomicU32::new(0), AtomicU32::new(0));
        self.on_two_cpus(|me| {
            let mut meet = self.meeting(&meetings);
            let (mine, theirs) = (&words[me as usize], &words[1 - me as usize]);
            let began = M::Cpu::now_ns();
            for round in 1..=self.harness.rounds() {
                if !meet() || over.load(SeqCst) == 1 {
                    return;
                }
                skew(round, me);
                let misses = self.tries(me, round, mine, theirs);
                missed[me as usize].0.store(misses, SeqCst);
                meet();
                let misses = [0, 1].map(|cpu| missed[cpu].0.load(SeqCst));
                self.check(Rule::BarrierOrders, misses[0] & misses[1] == 0);
                if me == 0 {
                    rounds.fetch_add(1, SeqCst);
                    overlaps.fetch_add(u32::from(misses.into_iter().any(has_overlapped)), SeqCst);
                }
                if me == 0 && M::Cpu::now_ns().saturating_sub(began) > self.harness.rounds_ns() {
                    over.store(1, SeqCst);
                }
            }
        });
        let (overlaps, rounds) = (overlaps.into_inner(), rounds.into_inner());
        if rounds > 0 && overlaps < rounds.div_ceil(ROUNDS_PER_OVERLAP) {
            self.never_overlapped(Rule::BarrierOrders);
        }
    }

    /// One CPU's half of a round: bit `n` says that the other's `n`th store was missed.
    fn tries(&self, me: u32, round: u32, mine: &[PaddedWord; TRIES], theirs: &[PaddedWord; TRIES]) -> u32 {
        let mut misses = 0;
        for (n, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
            // A store waits in the CPU's buffer behind those before it, and those wait for their lines.
            let cold = COLD[me as usize].iter().cycle().skip(BEFORE * (n + round as usize) % COLD_LINES);
            cold.take(BEFORE).for_each(|word| word.0.store(round, Relaxed));
            mine.0.store(round, Relaxed);
            if me == 0 {
                compiler_fence(SeqCst);
            } else {
                self.machine.barrier_all();
            }
            misses |= u32::from(theirs.0.load(Relaxed) < round) << n;
            // One of the two falls behind a little at each try, so that they meet at some.
            idle(if round % 2 == me { 8 } else { 0 });
        }
        misses
    }
}

/// Cache lines that a CPU writes so seldom that they are not in its nearest cache.
static COLD: [[PaddedWord; COLD_LINES]; 2] =
    [const { [const { PaddedWord(AtomicU32::new(0)) }; COLD_LINES] }; 2];
const COLD_LINES: usize = 512;
/// Stores to such lines before each try.
const BEFORE: usize = 16;
/// Pairs of words in a round.
const TRIES: usize = 16;

/// Two CPUs that run at once overlap in most rounds; two that share one, where it happens to change hands in
/// the middle of a round.
const ROUNDS_PER_OVERLAP: u32 = 10;

/// Whether the other CPU was at its tries while this one was, whose misses these are: it missed some of the
/// other's stores, and saw some.
fn has_overlapped(misses: u32) -> bool {
    misses != 0 && misses != (1 << TRIES) - 1
}

/// Lets the CPUs start apart by a different number of instructions in each round.
fn skew(round: u32, me: u32) {
    idle(round.wrapping_mul(0x9E37_79B1).rotate_left(16 * me) % 512);
}

fn idle(steps: u32) {
    (0..steps).for_each(|step| {
        core::hint::black_box(step);
    });
}
