//! Rules of helpers.

use super::{Harness, RUNS, Rule, Suite};
use crate::machine::{Callback, Cpu, Machine};
use crate::units::CpuId;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// What one run's helpers report, for runs that may be under way at once: a helper gets a number, not a
/// reference.
struct HelperState {
    /// Helpers that run the handler.
    running: AtomicU32,
    /// Helpers that have begun.
    begun: AtomicU32,
    /// Helpers that began on a CPU that does not exist, or held something.
    wrong: AtomicU32,
    /// Turns of the helper of [`SPUN`].
    turns: AtomicU32,
    /// 1 when they are to return.
    stopped: AtomicU32,
}

static HELPER_STATES: [HelperState; RUNS] = [const {
    HelperState {
        running: AtomicU32::new(0),
        begun: AtomicU32::new(0),
        wrong: AtomicU32::new(0),
        turns: AtomicU32::new(0),
        stopped: AtomicU32::new(0),
    }
}; RUNS];
/// The handler's data is this and the number of the run.
const DATA: usize = 0x4E1_9000;
/// Number of times that a stopped helper relaxes before it returns.
const RELAXES: u32 = 200;
/// The CPU on which ordinary threads spin beside the helper.
const SPUN: CpuId = CpuId(1);
/// How many: with one the helper is the only thread that waits for the CPU.
const SPINNERS: u32 = 3;
/// Turns that an expedited helper must get there.
const TURNS: u32 = 3;

/// The number of a run.
#[derive(Clone, Copy)]
pub(super) struct HelperRun(pub(super) usize);

impl HelperRun {
    fn state(self) -> &'static HelperState {
        &HELPER_STATES[self.0]
    }
}

fn handle<M: Machine>(machine: &M, data: usize) {
    let Some(state) = data.checked_sub(DATA).and_then(|run| HELPER_STATES.get(run)) else { return };
    state.running.fetch_add(1, SeqCst);
    let holds = M::Cpu::with_context(|context| context.held() != 0 || context.in_read_section());
    let me = M::Cpu::id();
    if holds || me.0 >= machine.nr_cpus() {
        state.wrong.fetch_add(1, SeqCst);
    }
    state.begun.fetch_add(1, SeqCst);
    while state.stopped.load(SeqCst) == 0 {
        if me == SPUN {
            state.turns.fetch_add(1, SeqCst);
        }
        M::Cpu::yield_now();
        if M::Cpu::id() != me {
            state.wrong.fetch_add(1, SeqCst);
        }
    }
    (0..RELAXES).for_each(|_| M::Cpu::relax());
    state.running.fetch_sub(1, SeqCst);
}

impl<M: Machine, H: Harness<M> + Sync> Suite<'_, M, H> {
    /// Starts and stops helpers. A machine where none starts has none, and is not tested.
    pub(super) fn helpers(&self, run: HelperRun) {
        self.harness.run_with_helper(self.machine, &|| self.start_and_stop(run));
        if self.tested.load(Relaxed) >> Rule::HelperRuns as u8 & 1 == 1 && self.machine.nr_cpus() > SPUN.0 {
            self.expedited(run);
        }
    }

    /// Has helpers run the handler from now on. False where the machine refuses it.
    fn set_handler(&self, run: HelperRun) -> bool {
        let callback = Callback { call: handle::<M>, data: DATA + run.0 };
        // SAFETY: the function is safe, whatever its data.
        unsafe { self.machine.set_helper_handler(Some(callback)) }
    }

    fn stop_helpers(&self, run: HelperRun) {
        run.state().stopped.store(1, SeqCst);
        // SAFETY: no function is set.
        let _removed = unsafe { self.machine.set_helper_handler(None) };
    }

    fn start_and_stop(&self, run: HelperRun) {
        let state = run.state();
        for _ in 0..10 {
            state.begun.store(0, SeqCst);
            state.stopped.store(0, SeqCst);
            let has_begun = self.set_handler(run) && self.wait(|| state.begun.load(SeqCst) > 0);
            if has_begun {
                self.check(Rule::HandlerOwned, !self.set_handler(run));
            }
            self.stop_helpers(run);
            if !has_begun {
                return;
            }
            self.check(Rule::HelperAwaited, state.running.load(SeqCst) == 0);
            self.wait(|| state.running.load(SeqCst) == 0);
            self.check(Rule::HelperRuns, state.wrong.swap(0, SeqCst) == 0);
        }
    }

    /// CPU 0 expedites the helper of a CPU on which threads of an ordinary priority never stop.
    fn expedited(&self, run: HelperRun) {
        let (state, spun, over) = (run.state(), AtomicU32::new(0), AtomicU32::new(0));
        let caller = || {
            state.stopped.store(0, SeqCst);
            if self.wait(|| spun.load(SeqCst) == SPINNERS) && self.set_handler(run) {
                M::Cpu::expedite_helper(SPUN);
                let before = state.turns.load(SeqCst);
                let has_turns = self.wait(|| state.turns.load(SeqCst).wrapping_sub(before) >= TURNS);
                M::Cpu::end_expedite(SPUN);
                self.check(Rule::HelperExpedited, has_turns);
            }
            over.store(1, SeqCst);
            self.stop_helpers(run);
        };
        let spins = || {
            spun.fetch_add(1, SeqCst);
            while over.load(SeqCst) == 0 {
                M::Cpu::relax();
            }
        };
        let mut programs: [(CpuId, &(dyn Fn() + Sync)); 1 + SPINNERS as usize] =
            [(SPUN, &spins); 1 + SPINNERS as usize];
        programs[0] = (CpuId(0), &caller);
        self.harness.run_beside_helpers(self.machine, &programs);
    }
}
