//! Forks of a life, by the time in which each copied its memory.
//!
//! ```text
//!   thread A        |- clone ------------------------- task |---| returns
//!   thread B   fault 1      fault 2          fault 3           fault 4
//!                   |<--- the window of the fork ---->|
//! ```
//!
//! The copy was made at some instant between the start of the call and the task event, page by page. A replay
//! makes it at the task event. So of faults 2 and 3 nothing says whether they met the memory before the copy
//! or after; fault 1 met it before, fault 4 after.

use crate::trace::{Event, Kind, Sys};
use std::collections::HashMap;

/// The windows of the forks of a life.
#[derive(Debug, Default)]
pub struct ForkWindows {
    /// By rising time of the task event.
    windows: Vec<Window>,
    /// For each, the earliest start of it and those after it.
    earliest_start_ns: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start_ns: u64,
    task_ns: u64,
    tid: u32,
}

impl ForkWindows {
    /// Collects the forks among the events of a life.
    pub fn of(events: &[Event]) -> ForkWindows {
        let mut made: HashMap<u32, u64> = HashMap::new();
        let mut windows: Vec<Window> = Vec::new();
        for event in events {
            match &event.kind {
                Kind::Task(task) if !task.shares_memory() => {
                    made.insert(event.tid, event.time_ns);
                }
                Kind::Call(call) if matches!(call.sys, Sys::Fork | Sys::Clone | Sys::Clone3) => {
                    let task_ns = made.remove(&event.tid).filter(|&task_ns| call.start_ns <= task_ns);
                    let window = |task_ns| Window { start_ns: call.start_ns, task_ns, tid: event.tid };
                    windows.extend(task_ns.map(window));
                }
                _ => {}
            }
        }
        windows.sort_by_key(|window| window.task_ns);
        let mut earliest = u64::MAX;
        let starts = windows.iter().rev().map(|window| {
            earliest = earliest.min(window.start_ns);
            earliest
        });
        let mut earliest_start_ns: Vec<u64> = starts.collect();
        earliest_start_ns.reverse();
        ForkWindows { windows, earliest_start_ns }
    }

    /// Whether a fork by another thread than that of `event` was copying the memory then.
    pub fn any_beside(&self, event: &Event) -> bool {
        let from = self.windows.partition_point(|window| window.task_ns < event.time_ns);
        (from..self.windows.len())
            .take_while(|&at| self.earliest_start_ns[at] <= event.time_ns)
            .map(|at| &self.windows[at])
            .any(|window| window.tid != event.tid && window.start_ns <= event.time_ns)
    }
}
