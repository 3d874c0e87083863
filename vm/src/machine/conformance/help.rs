//! Rules of helpers.

use super::{Harness, Rule, Suite};
use crate::machine::{Callback, Cpu, Machine};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// What one run's helpers tell, for runs that may be under way at once: a helper gets a number, not a
/// reference.
struct Told {
    /// Helpers inside the program.
    inside: AtomicU32,
    /// Helpers that have begun.
    begun: AtomicU32,
    /// Helpers that began on a CPU that is none, or held something.
    wrong: AtomicU32,
    /// 1 when they shall return.
    dismissed: AtomicU32,
}

static TOLD: [Told; RUNS] = [const {
    Told {
        inside: AtomicU32::new(0),
        begun: AtomicU32::new(0),
        wrong: AtomicU32::new(0),
        dismissed: AtomicU32::new(0),
    }
}; RUNS];
/// So many runs may be under way at once.
const RUNS: usize = 64;
/// The program's data is this and the number of the run.
const DATA: usize = 0x4E1_9000;
/// So often a dismissed helper dawdles.
const DAWDLES: u32 = 200;

fn program<M: Machine>(machine: &M, data: usize) {
    let Some(told) = data.checked_sub(DATA).and_then(|run| TOLD.get(run)) else { return };
    told.inside.fetch_add(1, SeqCst);
    let holds = M::Cpu::with_context(|context| context.held() != 0 || context.in_read_section());
    let me = M::Cpu::id();
    if holds || me.0 >= machine.nr_cpus() {
        told.wrong.fetch_add(1, SeqCst);
    }
    told.begun.fetch_add(1, SeqCst);
    while told.dismissed.load(SeqCst) == 0 {
        M::Cpu::yield_now();
        if M::Cpu::id() != me {
            told.wrong.fetch_add(1, SeqCst);
        }
    }
    (0..DAWDLES).for_each(|_| M::Cpu::relax());
    told.inside.fetch_sub(1, SeqCst);
}

impl<M: Machine, H: Harness<M> + Sync> Suite<'_, M, H> {
    /// Has helpers come and go. A machine where none comes has none, and is not tested.
    pub(super) fn help(&self) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: the number only has to be unlike the others under way.
        let run = NEXT.fetch_add(1, Relaxed) % RUNS;
        let told = &TOLD[run];
        self.harness.run_with_helper(self.machine, &|| {
            for _ in 0..10 {
                told.begun.store(0, SeqCst);
                told.dismissed.store(0, SeqCst);
                self.machine.set_helper_handler(Some(Callback { call: program::<M>, data: DATA + run }));
                let come = self.wait(|| told.begun.load(SeqCst) > 0);
                told.dismissed.store(1, SeqCst);
                self.machine.set_helper_handler(None);
                if !come {
                    return;
                }
                self.must(Rule::HelpAwaited, told.inside.load(SeqCst) == 0);
                self.wait(|| told.inside.load(SeqCst) == 0);
                self.must(Rule::HelpRuns, told.wrong.swap(0, SeqCst) == 0);
            }
        });
    }
}
