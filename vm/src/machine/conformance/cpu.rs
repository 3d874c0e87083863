//! Rules of [`Cpu`] that need no other CPU's interrupts.

use super::{Harness, Rule, Suite};
use crate::machine::{Cpu, Machine, Rank};
use core::sync::atomic::{AtomicU32, Ordering::*};

impl<M: Machine, H: Harness<M> + Sync> Suite<'_, M, H> {
    pub(super) fn cpu(&self) {
        let machine = AtomicU32::new(0);
        self.on_one_cpu(|| {
            machine.store(M::Cpu::machine().get(), Relaxed);
            self.id(0);
            self.clock();
            self.interrupt_state();
            self.sleep_looks();
        });
        self.on_two_cpus(|me| {
            self.id(me);
            self.check(Rule::MachineStays, M::Cpu::machine().get() == machine.load(Relaxed));
            self.clock();
        });
        self.contexts();
        self.wakes();
    }

    fn id(&self, me: u32) {
        self.check(Rule::IdBelowCount, M::Cpu::id().0 < self.machine.nr_cpus());
        let machine = M::Cpu::machine();
        (0..3).for_each(|_| M::Cpu::preempt_off());
        self.check(Rule::IdStays, M::Cpu::id().0 == me);
        for _ in 0..3 {
            (0..100).for_each(|_| M::Cpu::relax());
            self.check(Rule::IdStays, M::Cpu::id().0 == me);
            self.check(Rule::MachineStays, M::Cpu::machine() == machine);
            // SAFETY: one of the three above; the loop ends as many.
            unsafe { M::Cpu::preempt_on() };
        }
    }

    fn clock(&self) {
        let mut last = M::Cpu::now_ns();
        for _ in 0..1000 {
            let now = M::Cpu::now_ns();
            self.check(Rule::ClockForward, now >= last);
            last = now;
        }
    }

    fn interrupt_state(&self) {
        let on = M::Cpu::interrupts_off();
        let off = M::Cpu::interrupts_off();
        let off_again = M::Cpu::interrupts_off();
        // One CPU that no handler interrupts may have one state.
        let differ = on != off || self.machine.nr_cpus() == 1;
        self.check(Rule::InterruptsNest, differ && off == off_again);
        // SAFETY: each is the last that is not restored.
        unsafe {
            M::Cpu::interrupts_restore(off_again);
            M::Cpu::interrupts_restore(off);
            M::Cpu::interrupts_restore(on);
        }
        let still_on = M::Cpu::interrupts_off();
        self.check(Rule::InterruptsNest, on == still_on);
        // SAFETY: the one just turned off.
        unsafe { M::Cpu::interrupts_restore(still_on) };
    }

    fn sleep_looks(&self) {
        let word = AtomicU32::new(1);
        M::Cpu::sleep(&word, 0);
        self.check(Rule::SleepLooks, true);
    }

    /// Notes a lock in the context of CPU 1's thread; CPU 0's knows nothing of it.
    fn contexts(&self) {
        let (meetings, rank) = (AtomicU32::new(0), Rank(7));
        self.on_two_cpus(|me| {
            let mut meet = self.meeting(&meetings);
            let held = || M::Cpu::with_context(|context| context.held());
            self.check(Rule::ContextOfThread, held() == 0);
            if me == 1 {
                M::Cpu::with_context(|context| context.note_acquired(rank));
            }
            meet();
            self.check(Rule::ContextOfThread, held() == u64::from(me) << rank.0);
            meet();
            if me == 1 {
                M::Cpu::with_context(|context| context.note_released(rank));
            }
            self.check(Rule::ContextOfThread, held() == 0);
        });
    }

    /// Two CPUs pass a word to and fro; each sleeps until it is its turn.
    fn wakes(&self) {
        let word = AtomicU32::new(0);
        let rounds = self.harness.rounds().min(200);
        self.on_two_cpus(|me| {
            for round in 0..rounds {
                let mine = 2 * round + me;
                loop {
                    let now = word.load(SeqCst);
                    if now == mine {
                        break;
                    }
                    M::Cpu::sleep(&word, now);
                }
                word.store(mine + 1, SeqCst);
                M::Cpu::wake(&word, 1);
            }
            self.check(Rule::WakeReaches, true);
        });
    }
}
