//! What a recording says of Linux: how long the threads lived, and what of that went to memory.

use crate::replay::contention::LinuxTimes;
use crate::trace::{Call, Event, Kind, Shape, Sys};
use serde::Serialize;
use std::collections::HashMap;

/// Linux's times, of all events of a trace; nanoseconds. The field names are the JSON's and stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recorded {
    /// Threads.
    pub threads: u64,
    /// Measured: from the first to the last event of each thread, added up; what a thread waited included.
    pub lived_ns: u64,
    /// Calls about memory that returned.
    pub calls: u64,
    /// Measured: from entry to return of each, added up, recording included.
    pub calls_ns: u64,
    /// Forks that copied an address space.
    pub forks: u64,
    /// Measured: the same of these.
    pub forks_ns: u64,
    /// Page faults.
    pub faults: u64,
    /// Measured: a tenth of them were followed by the next event of their thread sooner than this.
    pub fault_tenth_ns: u64,
    /// Estimated, since a trace has no end of a fault: the faults times that.
    pub faults_estimated_ns: u64,
    /// Upper bound: from each fault to the next event of its thread, added up.
    pub faults_at_most_ns: u64,
    /// Measured: faults that began while another thread of the process was in a call that changes mappings.
    pub beside_calls: u64,
    /// Upper bound of what they waited for such calls, added up.
    pub waited_at_most_ns: u64,
    /// Measured: half of those faults were followed by the next event of their thread sooner than this.
    pub beside_half_ns: u64,
    /// Measured: half of the others were.
    pub others_half_ns: u64,
}

impl Recorded {
    /// Those of a trace's events, in recorded order; the command runs from time 0 on as `command`.
    pub fn of(command: u32, events: &[Event]) -> Recorded {
        let mut recorded = Recorded::default();
        let mut threads = Threads::default();
        threads.begin(command, 0);
        let mut copied = HashMap::new();
        for event in events {
            threads.note(event.tid, event.time_ns);
            match &event.kind {
                Kind::Task(task) => {
                    threads.begin(task.tid, event.time_ns);
                    if !task.shares_memory() {
                        copied.insert(event.tid, event.time_ns);
                    }
                }
                Kind::Call(call) if call.result.is_some() => {
                    recorded.add_call(call, copied.get(&event.tid).copied());
                }
                _ => {}
            }
        }
        (recorded.threads, recorded.lived_ns) = threads.sums();
        recorded.add_faults(events);
        recorded
    }

    /// Adds a call of a thread that has copied its space last at `copied_ns`.
    fn add_call(&mut self, call: &Call, copied_ns: Option<u64>) {
        let took_ns = call.end_ns.saturating_sub(call.start_ns);
        if is_about_memory(call.sys) {
            self.calls += 1;
            self.calls_ns += took_ns;
        } else if copied_ns.is_some_and(|at| (call.start_ns..=call.end_ns).contains(&at)) {
            self.forks += 1;
            self.forks_ns += took_ns;
        }
    }

    fn add_faults(&mut self, events: &[Event]) {
        let LinuxTimes { mut after_faults, mut after_contended, waited_at_most_ns, contended, .. } =
            LinuxTimes::of(events);
        self.faults = contended.faults;
        self.beside_calls = contended.beside_a_call;
        self.waited_at_most_ns = waited_at_most_ns;
        self.faults_at_most_ns = after_faults.iter().sum();
        after_faults.sort_unstable();
        after_contended.sort_unstable();
        self.fault_tenth_ns = at_share(&after_faults, 10);
        self.faults_estimated_ns = (self.faults * self.fault_tenth_ns).min(self.faults_at_most_ns);
        self.beside_half_ns = at_share(&after_contended, 2);
        self.others_half_ns = at_share(&without(&after_faults, &after_contended), 2);
    }

    /// Estimated: faults, calls and forks together.
    pub fn memory_ns(&self) -> u64 {
        self.calls_ns + self.forks_ns + self.faults_estimated_ns
    }
}

/// Whether a call works on memory, or asks about it; not one that sets a limit or a mode.
fn is_about_memory(sys: Sys) -> bool {
    use Sys::{Mlockall, Munlockall, ProcessMadvise, ProcessMrelease, Shmdt};
    match sys.shape() {
        Shape::Changes | Shape::Gives | Shape::Uses => true,
        Shape::Task => false,
        Shape::Other => matches!(sys, Mlockall | Munlockall | ProcessMadvise | ProcessMrelease | Shmdt),
    }
}

/// The value that one in `part` of these, which rise, is less than; 0 of none.
fn at_share(values: &[u64], part: usize) -> u64 {
    values.get(values.len() / part).copied().unwrap_or(0)
}

/// The values that are not among `some`, which all are among them. Both rise.
fn without(all: &[u64], some: &[u64]) -> Vec<u64> {
    let mut some = some.iter().peekable();
    all.iter().filter(|value| some.next_if_eq(value).is_none()).copied().collect()
}

/// From when to when each thread was seen.
#[derive(Debug, Default)]
struct Threads {
    alive: HashMap<u32, (u64, u64)>,
    /// Those whose number another thread has got.
    gone: Vec<(u64, u64)>,
}

impl Threads {
    fn begin(&mut self, tid: u32, time_ns: u64) {
        self.gone.extend(self.alive.insert(tid, (time_ns, time_ns)));
    }

    fn note(&mut self, tid: u32, time_ns: u64) {
        self.alive.entry(tid).or_insert((time_ns, time_ns)).1 = time_ns;
    }

    /// How many there were, and their time.
    fn sums(&self) -> (u64, u64) {
        let each = || self.alive.values().chain(&self.gone);
        (each().count() as u64, each().map(|(from, to)| to - from).sum())
    }
}

#[cfg(test)]
#[path = "tests/recorded.rs"]
mod tests;
