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
//!
//! A fork that Linux refuses for lack of memory, or of numbers for processes, has no task event. It may have
//! copied any part of the memory by then, and what it copied has lost the right to write.

use super::intervals::{Interval, Intervals};
use crate::trace::{Call, Event, Kind, NewTask, Sys};
use interleaf_linux_abi::Errno;
use std::collections::HashMap;

/// The windows of the forks of a life, each with the thread that forked.
#[derive(Debug, Default)]
pub struct ForkWindows {
    windows: Intervals<u32>,
    /// Forks that were refused when they may have begun to copy: by rising start, when each was called, and
    /// the latest end of it and those before.
    refused: Vec<(u64, u64)>,
}

impl ForkWindows {
    /// Collects the forks among the events of a life.
    pub fn of(events: &[Event]) -> ForkWindows {
        let mut made: HashMap<u32, u64> = HashMap::new();
        let mut windows = Vec::new();
        for event in events {
            match &event.kind {
                Kind::Task(task) if !task.shares_memory() => {
                    made.insert(event.tid, event.time_ns);
                }
                Kind::Call(call) if matches!(call.sys, Sys::Fork | Sys::Clone | Sys::Clone3) => {
                    let task_ns = made.remove(&event.tid).filter(|&task_ns| call.start_ns <= task_ns);
                    let window = |end_ns| Interval { start_ns: call.start_ns, end_ns, what: event.tid };
                    windows.extend(task_ns.map(window));
                }
                _ => {}
            }
        }
        ForkWindows { windows: Intervals::of(windows), refused: refused(events) }
    }

    /// Whether a fork that was refused may have taken the right to write from a page whose last fault was at
    /// `last_ns`, before the one at `now_ns`.
    pub fn any_refused(&self, last_ns: u64, now_ns: u64) -> bool {
        let begun = self.refused.partition_point(|&(start_ns, _)| start_ns <= now_ns);
        self.refused[..begun].last().is_some_and(|&(_, end_ns)| last_ns <= end_ns)
    }

    /// Whether a fork by another thread than that of `event` was copying the memory then.
    pub fn any_beside(&self, event: &Event) -> bool {
        self.windows.any_in(event.time_ns, event.time_ns, |&tid| tid != event.tid)
    }
}

/// The refused forks among the events, as [`ForkWindows`] has them.
fn refused(events: &[Event]) -> Vec<(u64, u64)> {
    let calls = events.iter().filter_map(|event| match &event.kind {
        Kind::Call(call) if is_refused_copy(call) => Some((call.start_ns, call.end_ns)),
        _ => None,
    });
    let mut refused: Vec<_> = calls.collect();
    refused.sort_unstable();
    let mut latest = 0;
    for (_, end_ns) in &mut refused {
        latest = latest.max(*end_ns);
        *end_ns = latest;
    }
    refused
}

/// Whether the call may have copied memory before it was refused. What clone3 asks for lies behind a pointer.
fn is_refused_copy(call: &Call) -> bool {
    let forks = match call.sys {
        Sys::Fork | Sys::Clone3 => true,
        Sys::Clone => call.args[0] & NewTask::VM == 0,
        _ => false,
    };
    let late = [Errno::ENOMEM, Errno::EAGAIN].map(Errno::as_return_value);
    forks && call.result.is_some_and(|result| late.contains(&result))
}
