//! The run queue of a CPU: one task owns it at a time.
//!
//! A task that wants the CPU queues; one that leaves hands it straight to the first in the queue, so that no
//! task overtakes another. A waiter that has waited a time slice asks for the CPU by raising its pending
//! bits: the owner spends no time on clocks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a task may own a CPU that another waits for.
pub const TIME_SLICE: Duration = Duration::from_micros(500);

/// The owner of a CPU and those that wait for it.
#[derive(Debug, Default)]
pub struct RunQueue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    owned: bool,
    queue: VecDeque<Arc<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    /// Set, with release, by the task that hands the CPU over; the waiter reads it with acquire.
    granted: AtomicBool,
    thread: Thread,
}

impl RunQueue {
    /// Waits for the CPU. `overdue` is called after each time slice of waiting.
    pub fn acquire(&self, overdue: impl Fn()) {
        let Some(waiter) = self.queue_up() else { return };
        while !waiter.granted.load(Acquire) {
            thread::park_timeout(TIME_SLICE);
            if !waiter.granted.load(Acquire) {
                overdue();
            }
        }
    }

    /// Takes the CPU if it is free.
    pub fn try_acquire(&self) -> bool {
        let mut state = self.state();
        !std::mem::replace(&mut state.owned, true)
    }

    /// Gives the CPU to the first waiter.
    pub fn release(&self) {
        let mut state = self.state();
        match state.queue.pop_front() {
            Some(waiter) => {
                drop(state);
                waiter.granted.store(true, Release);
                waiter.thread.unpark();
            }
            None => state.owned = false,
        }
    }

    /// Whether a task waits; stale at once.
    pub fn has_waiters_racy(&self) -> bool {
        !self.state().queue.is_empty()
    }

    /// Takes the free CPU, or queues.
    fn queue_up(&self) -> Option<Arc<Waiter>> {
        let mut state = self.state();
        if !std::mem::replace(&mut state.owned, true) {
            return None;
        }
        let waiter = Arc::new(Waiter { granted: AtomicBool::new(false), thread: thread::current() });
        state.queue.push_back(waiter.clone());
        Some(waiter)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "tests/run_queue.rs"]
mod tests;
