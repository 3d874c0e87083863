//! Ending a recording before its command has ended: the processes are asked, then killed, and what they did
//! until then is a whole trace.
//!
//! Each process is asked by the signal that the recorder got. Those that have not ended two seconds later
//! are killed. The tracer sees either end as any other, with its last map.

use crate::os::end_requests::{EndRequests, Request};
use crate::os::process;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the processes have to end by themselves.
const GRACE: Duration = Duration::from_secs(2);
/// How often those that began meanwhile are killed.
const AGAIN: Duration = Duration::from_millis(50);

/// The processes that a signal for the recorder is for.
#[derive(Debug, Default)]
pub struct Ending {
    /// Those that have begun and were not waited for: their numbers are theirs.
    alive: Mutex<BTreeSet<u32>>,
    /// The signal that ended the recording, or 0.
    by: AtomicI32,
}

impl Ending {
    /// A process has begun.
    pub fn began(&self, pid: u32) {
        self.alive().insert(pid);
    }

    /// A task is about to be waited for.
    pub fn ends(&self, tid: u32) {
        self.alive().remove(&tid);
    }

    /// The signal that ended the recording.
    pub fn stopped_by(&self) -> Option<i32> {
        Some(self.by.load(SeqCst)).filter(|&by| by != 0)
    }

    /// Answers signals until `requests` are over.
    pub fn follow(&self, requests: &EndRequests) {
        let mut asked: Option<Instant> = None;
        loop {
            let is_grace_over = asked.is_some_and(|asked| asked.elapsed() >= GRACE);
            if is_grace_over {
                self.send(libc::SIGKILL);
            }
            let most = if asked.is_some() { AGAIN } else { Duration::MAX };
            match requests.next(most) {
                Request::Over => return,
                Request::None => {}
                Request::Signal(signal) => {
                    self.by.store(signal, SeqCst);
                    self.send(signal);
                    asked.get_or_insert_with(Instant::now);
                }
            }
        }
    }

    fn send(&self, signal: i32) {
        // A number is not given to another process while its task was not waited for.
        self.alive().iter().for_each(|&pid| process::send_signal(pid, signal));
    }

    fn alive(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
