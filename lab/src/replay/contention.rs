//! What Linux's own times say: how long its calls took, how soon a thread went on after a fault, and which
//! faults met a mapping call of another thread.
//!
//! A trace has the start and the end of a call, and the start of a fault. The time from a fault to the next
//! thing that its thread does bounds the fault from above; the shortest tenth of these times is near it.

use crate::trace::{Call, Event, Kind, Sys};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Linux's times in one life, or in a whole trace.
#[derive(Debug, Default)]
pub struct LinuxTimes {
    /// Calls by name: how long each took, nanoseconds.
    pub calls: BTreeMap<Sys, Vec<u64>>,
    /// Faults: time to the next event of the thread, nanoseconds.
    pub after_faults: Vec<u64>,
    /// Of those, the ones that met a mapping call.
    pub after_contended: Vec<u64>,
    /// Upper bound of what the faults waited for mapping calls of other threads, added up, nanoseconds: from
    /// a fault that met one until its thread's next event, or until there was an instant without such a call.
    pub waited_at_most_ns: u64,
    /// Faults that met a mapping call.
    pub contended: Contended,
}

/// Faults that were taken while another thread of the process was in a call that changes mappings: Linux's
/// `mmap_lock` was taken, or wanted, for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contended {
    /// Faults in all.
    pub faults: u64,
    /// Those that met such a call.
    pub beside_a_call: u64,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct Underway {
    start_ns: u64,
    end_ns: u64,
    pid: u32,
    tid: u32,
}

/// A fault after which its thread has done nothing yet.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    fault_ns: u64,
    /// The end of the last of the calls that it met; none if it met none.
    met_until_ns: Option<u64>,
}

impl LinuxTimes {
    /// The times of a life's events, or of all events of a trace, in recorded order.
    pub fn of(events: &[Event]) -> LinuxTimes {
        let mut times = LinuxTimes::default();
        let mut writers = Writers::of(events);
        let mut outstanding: HashMap<u32, Outstanding> = HashMap::new();
        for event in events {
            let began_ns = match &event.kind {
                Kind::Call(call) => call.start_ns,
                _ => event.time_ns,
            };
            if let Some(fault) = outstanding.remove(&event.tid)
                && began_ns >= fault.fault_ns
            {
                times.add_fault(fault, began_ns, || writers.busy_until(event, fault, began_ns));
            }
            match &event.kind {
                Kind::Fault(_) => {
                    let met_until_ns = writers.met_until(event);
                    times.contended.faults += 1;
                    times.contended.beside_a_call += u64::from(met_until_ns.is_some());
                    outstanding.insert(event.tid, Outstanding { fault_ns: event.time_ns, met_until_ns });
                }
                Kind::Call(call) if call.result.is_some() => {
                    times.calls.entry(call.sys).or_default().push(call.end_ns - call.start_ns);
                }
                _ => {}
            }
        }
        times
    }

    /// Adds a fault whose thread went on at `next_ns`; if it met a call, other threads were in such calls
    /// without a break until `busy_until`.
    fn add_fault(&mut self, fault: Outstanding, next_ns: u64, busy_until: impl FnOnce() -> u64) {
        self.after_faults.push(next_ns - fault.fault_ns);
        if fault.met_until_ns.is_some() {
            self.after_contended.push(next_ns - fault.fault_ns);
            self.waited_at_most_ns += busy_until().min(next_ns) - fault.fault_ns;
        }
    }
}

/// Calls that take Linux's lock of a space for writing, followed in order of time.
struct Writers {
    by_start: Vec<Underway>,
    begun: usize,
    underway: Vec<Underway>,
}

impl Writers {
    fn of(events: &[Event]) -> Writers {
        let writer = |event: &Event| match &event.kind {
            Kind::Call(Call { sys, start_ns, end_ns, .. }) if locks_for_writing(*sys) => {
                Some(Underway { start_ns: *start_ns, end_ns: *end_ns, pid: event.pid, tid: event.tid })
            }
            _ => None,
        };
        let mut by_start: Vec<Underway> = events.iter().filter_map(writer).collect();
        by_start.sort_by_key(|call| call.start_ns);
        Writers { by_start, begun: 0, underway: Vec::new() }
    }

    /// The end of the last call that another thread of the process is in at a fault, whose times do not
    /// decrease; none if there is none.
    fn met_until(&mut self, fault: &Event) -> Option<u64> {
        let time_ns = fault.time_ns;
        while let Some(&next) = self.by_start.get(self.begun).filter(|call| call.start_ns <= time_ns) {
            self.underway.push(next);
            self.begun += 1;
        }
        self.underway.retain(|call| call.end_ns >= time_ns);
        self.underway.iter().filter(|call| call.is_beside(fault)).map(|call| call.end_ns).max()
    }

    /// Until when, from a fault that met a call on, there was no instant without a call of another thread of
    /// the process; calls that begin at `next_ns` or later do not count.
    fn busy_until(&self, event: &Event, fault: Outstanding, next_ns: u64) -> u64 {
        let mut until = fault.met_until_ns.unwrap_or(fault.fault_ns);
        let later = self.by_start.partition_point(|call| call.start_ns <= fault.fault_ns);
        for call in &self.by_start[later..] {
            if call.start_ns > until || call.start_ns >= next_ns {
                break;
            }
            if call.is_beside(event) {
                until = until.max(call.end_ns);
            }
        }
        until
    }
}

impl Underway {
    /// Whether another thread of the event's process is in the call.
    fn is_beside(self, event: &Event) -> bool {
        self.pid == event.pid && self.tid != event.tid
    }
}

fn locks_for_writing(sys: Sys) -> bool {
    use Sys::{Brk, MapShadowStack, Mmap, Mprotect, Mremap, Mseal, Munmap, PkeyMprotect};
    matches!(sys, Mmap | Munmap | Mprotect | PkeyMprotect | Mremap | Brk | MapShadowStack | Mseal)
}

#[cfg(test)]
#[path = "tests/contention.rs"]
mod tests;
