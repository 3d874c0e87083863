//! Helper threads: started before they are needed, on a CPU only while a program is installed.

use super::bus::{BoundHandler, Bus};
use super::entered::Entered;
use interleaf::machine::Cpu;
use interleaf::units::CpuId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The helpers of one machine.
pub(super) struct Helpers {
    slot: Arc<ProgramSlot>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The program that helpers run, and its changes.
#[derive(Default)]
struct ProgramSlot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What helpers run. A helper in it holds a reference.
    program: Option<BoundHandler>,
    /// The number of that program; each helper runs each once.
    number: u64,
    closed: bool,
}

impl ProgramSlot {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a program other than number `last`; `None` where there will be none.
    fn next(&self, last: u64) -> Option<(u64, BoundHandler)> {
        let mut state = self.state();
        loop {
            match &state.program {
                _ if state.closed => return None,
                Some(program) if state.number != last => return Some((state.number, program.clone())),
                _ => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Helpers {
    pub(super) fn new() -> Self {
        Self { slot: Arc::default(), threads: Mutex::default() }
    }

    pub(super) fn start(&self, bus: &Arc<Bus>, cpu: CpuId, at_start: impl FnOnce(CpuId) + Send + 'static) {
        let (slot, bus) = (self.slot.clone(), bus.clone());
        let life = move || {
            at_start(cpu);
            let mut last = 0;
            while let Some((number, program)) = slot.next(last) {
                let entered = Entered::on(&bus, cpu);
                // A program that unwinds has reported to its callers, and is started again.
                if catch_unwind(AssertUnwindSafe(|| program())).is_ok() {
                    last = number;
                }
                drop(entered);
            }
        };
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread::spawn(life));
    }

    pub(super) fn help(&self) {
        let program = self.slot.state().program.clone();
        if let Some(program) = program {
            program();
        }
    }

    /// Installs a program, or removes it and waits until no helper runs it. False, and no change, where
    /// another one is installed.
    pub(super) fn set_program<C: Cpu>(&self, program: Option<BoundHandler>) -> bool {
        let mut state = self.slot.state();
        if program.is_some() && state.program.is_some() {
            return false;
        }
        let before = state.program.take();
        drop(state);
        while before.as_ref().is_some_and(|before| Arc::strong_count(before) > 1) {
            C::relax();
            thread::yield_now();
        }
        let mut state = self.slot.state();
        state.number += u64::from(program.is_some());
        state.program = program;
        self.slot.changed.notify_all();
        true
    }

    /// Ends all helpers' threads. No program is installed.
    pub(super) fn stop(&self) {
        self.slot.state().closed = true;
        self.slot.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // A helper that panicked has printed its message.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}
