//! Taking turns at a CPU.
//!
//! A CPU is owned by one task at a time. Who wants it queues; who leaves hands it straight to the first in
//! the queue, so that nobody overtakes. A waiter that has waited a slice asks for the CPU by raising
//! attention: the owner spends no time on clocks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// How long a task may own a CPU that another waits for.
pub const TIME_SLICE: Duration = Duration::from_micros(500);

/// Whose turn it is.
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
    /// Set, with release, by who hands the turn over; the waiter reads it with acquire.
    granted: AtomicBool,
    thread: Thread,
}

impl RunQueue {
    /// Waits for the turn. `overdue` is called after each slice of waiting.
    pub fn acquire(&self, overdue: impl Fn()) {
        let Some(waiter) = self.queue_up() else { return };
        while !waiter.granted.load(Acquire) {
            thread::park_timeout(TIME_SLICE);
            if !waiter.granted.load(Acquire) {
                overdue();
            }
        }
    }

    /// Takes the turn if nobody has it.
    pub fn try_acquire(&self) -> bool {
        let mut state = self.state();
        !std::mem::replace(&mut state.owned, true)
    }

    /// Gives the turn to the first that waits.
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

    /// Whether somebody waits; stale at once.
    pub fn has_waiters_racy(&self) -> bool {
        !self.state().queue.is_empty()
    }

    /// Takes the free turn, or queues.
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
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn one_at_a_time_has_the_turn_and_everybody_gets_it() {
        let (queue, inside, rounds) = (RunQueue::default(), AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..200 {
                        queue.acquire(|| ());
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        rounds.fetch_add(1, SeqCst);
                        assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                        queue.release();
                    }
                });
            }
        });
        assert_eq!(rounds.into_inner(), 800);
        assert!(queue.try_acquire() && !queue.try_acquire());
    }
}
