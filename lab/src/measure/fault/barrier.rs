//! Where tasks wait for each other, unless one has given up.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A barrier that can be broken: a task that fails or panics releases the others.
#[derive(Debug)]
pub struct Barrier {
    members: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    /// Times that all members have met so far.
    held: u64,
    broken: bool,
}

impl Barrier {
    /// A barrier of `members`.
    pub fn new(members: usize) -> Self {
        Self { members, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until all have arrived; false where one has given up.
    pub fn wait(&self) -> bool {
        let mut state = self.state();
        let held = state.held;
        state.arrived += 1;
        if state.arrived == self.members {
            state.arrived = 0;
            state.held += 1;
            self.changed.notify_all();
        }
        while state.held == held && !state.broken {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.broken
    }

    /// Declares that the caller will not arrive again, and releases the waiters.
    pub fn abort(&self) {
        self.state().broken = true;
        self.changed.notify_all();
    }

    /// Whether a task has given up.
    pub fn is_aborted(&self) -> bool {
        self.state().broken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "tests/barrier.rs"]
mod tests;
