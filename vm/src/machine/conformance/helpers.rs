//! Rules of helpers.

use super::{Harness, Rule, Suite};
use crate::machine::{Callback, Cpu, Machine};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// What one run's helpers report, for runs that may be under way at once: a helper gets a number, not a
/// reference.
struct HelperRun {
    /// Helpers that run the handler.
    running: AtomicU32,
    /// Helpers that have begun.
    begun: AtomicU32,
    /// Helpers that began on a CPU that does not exist, or held something.
    wrong: AtomicU32,
    /// 1 when they are to return.
    stopped: AtomicU32,
}

static HELPER_RUNS: [HelperRun; RUNS] = [const {
    HelperRun {
        running: AtomicU32::new(0),
        begun: AtomicU32::new(0),
        wrong: AtomicU32::new(0),
        stopped: AtomicU32::new(0),
    }
}; RUNS];
/// Number of runs that may be under way at once.
const RUNS: usize = 64;
/// The handler's data is this and the number of the run.
const DATA: usize = 0x4E1_9000;
/// Number of times that a stopped helper relaxes before it returns.
const RELAXES: u32 = 200;

fn handle<M: Machine>(machine: &M, data: usize) {
    let Some(state) = data.checked_sub(DATA).and_then(|run| HELPER_RUNS.get(run)) else { return };
    state.running.fetch_add(1, SeqCst);
    let holds = M::Cpu::with_context(|context| context.held() != 0 || context.in_read_section());
    let me = M::Cpu::id();
    if holds || me.0 >= machine.nr_cpus() {
        state.wrong.fetch_add(1, SeqCst);
    }
    state.begun.fetch_add(1, SeqCst);
    while state.stopped.load(SeqCst) == 0 {
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
    pub(super) fn helpers(&self) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: the number only has to be unlike the others under way.
        let run = NEXT.fetch_add(1, Relaxed) % RUNS;
        let state = &HELPER_RUNS[run];
        self.harness.run_with_helper(self.machine, &|| {
            for _ in 0..10 {
                state.begun.store(0, SeqCst);
                state.stopped.store(0, SeqCst);
                let callback = Callback { call: handle::<M>, data: DATA + run };
                // SAFETY: the function is safe, whatever its data.
                let is_set = unsafe { self.machine.set_helper_handler(Some(callback)) };
                let has_begun = is_set && self.wait(|| state.begun.load(SeqCst) > 0);
                if has_begun {
                    // SAFETY: as above.
                    let is_replaced = unsafe { self.machine.set_helper_handler(Some(callback)) };
                    self.check(Rule::HandlerOwned, !is_replaced);
                }
                state.stopped.store(1, SeqCst);
                // SAFETY: no function is set.
                let _removed = unsafe { self.machine.set_helper_handler(None) };
                if !has_begun {
                    return;
                }
                self.check(Rule::HelperAwaited, state.running.load(SeqCst) == 0);
                self.wait(|| state.running.load(SeqCst) == 0);
                self.check(Rule::HelperRuns, state.wrong.swap(0, SeqCst) == 0);
            }
        });
    }
}
