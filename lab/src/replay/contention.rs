//! What Linux's own times say: how long its calls took, how soon a thread went on after a fault, and which
//! faults met a mapping call of another thread.
//!
//! A trace has the start and the end of a call, and the start of a fault. The time from a fault to the next
//! thing that its thread does bounds the fault from above; the shortest tenth of these times is near it.

use crate::trace::{Call, Event, Kind, Sys};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Linux's times in one life.
#[derive(Debug, Default)]
pub struct LinuxTimes {
    /// Calls by name: how long each took, nanoseconds.
    pub calls: BTreeMap<Sys, Vec<u64>>,
    /// Faults: time to the next event of the thread, nanoseconds.
    pub after_faults: Vec<u64>,
    /// Of those, the ones that met a mapping call.
    pub after_contended: Vec<u64>,
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
    tid: u32,
}

impl LinuxTimes {
    /// The times of a life's events, in recorded order.
    pub fn of(events: &[Event]) -> LinuxTimes {
        let mut times = LinuxTimes::default();
        let mut writers = Writers::of(events);
        let mut waiting: HashMap<u32, (u64, bool)> = HashMap::new();
        for event in events {
            let began_ns = match &event.kind {
                Kind::Call(call) => call.start_ns,
                _ => event.time_ns,
            };
            if let Some((fault_ns, met)) = waiting.remove(&event.tid)
                && began_ns >= fault_ns
            {
                times.after_faults.push(began_ns - fault_ns);
                times.after_contended.extend(met.then_some(began_ns - fault_ns));
            }
            match &event.kind {
                Kind::Fault(_) => {
                    let met = writers.other_than(event.tid, event.time_ns);
                    times.contended.faults += 1;
                    times.contended.beside_a_call += u64::from(met);
                    waiting.insert(event.tid, (event.time_ns, met));
                }
                Kind::Call(call) if call.result.is_some() => {
                    times.calls.entry(call.sys).or_default().push(call.end_ns - call.start_ns);
                }
                _ => {}
            }
        }
        times
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
                Some(Underway { start_ns: *start_ns, end_ns: *end_ns, tid: event.tid })
            }
            _ => None,
        };
        let mut by_start: Vec<Underway> = events.iter().filter_map(writer).collect();
        by_start.sort_by_key(|call| call.start_ns);
        Writers { by_start, begun: 0, underway: Vec::new() }
    }

    /// Whether a thread other than `tid` is in such a call at `time_ns`, which does not decrease.
    fn other_than(&mut self, tid: u32, time_ns: u64) -> bool {
        while let Some(&next) = self.by_start.get(self.begun).filter(|call| call.start_ns <= time_ns) {
            self.underway.push(next);
            self.begun += 1;
        }
        self.underway.retain(|call| call.end_ns >= time_ns);
        self.underway.iter().any(|call| call.tid != tid)
    }
}

fn locks_for_writing(sys: Sys) -> bool {
    use Sys::{Brk, MapShadowStack, Mmap, Mprotect, Mremap, Mseal, Munmap, PkeyMprotect};
    matches!(sys, Mmap | Munmap | Mprotect | PkeyMprotect | Mremap | Brk | MapShadowStack | Mseal)
}

#[cfg(test)]
#[path = "tests/contention.rs"]
mod tests;
