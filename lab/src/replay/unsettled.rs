//! Where mappings may be joined otherwise than in Linux, because calls were under way at the same time.
//!
//! Whether neighbours are joined depends on their identities (`anon_vma`): a new mapping joins a neighbour,
//! and so has its identity, or gets one at its first write fault, a neighbour's if one agrees. Both depend on
//! which neighbours there are at that instant. Where another thread was in a call that changes a neighbour
//! just then, or took the first fault of one, the recording does not say what Linux met:
//!
//! ```text
//!   A   |-- mmap [p, q) --|          joins what begins at q ...
//!   B        |-- munmap [q, r) --|   ... if this took effect after it
//! ```
//!
//! The pages that got their identity so are unsettled, and so are those that get theirs from them later,
//! until they are unmapped.

use super::moves::Moves;
use super::ranges::Ranges;
use super::step::pages;
use crate::trace::{Call, Event, Kind, Sys};
use interleaf::units::PAGE_SIZE;
use std::collections::HashMap;
use std::ops::Range;

/// Pages of a life whose identity depends on an order that was not recorded.
#[derive(Debug, Default)]
pub struct Unsettled {
    changes: Moves,
    /// For each event, when its thread did something else after it, nanoseconds; the end of time if it did
    /// not. Empty where one thread is alone.
    over_ns: Vec<u64>,
    /// Faults that gave mappings their identities, the last of each thread.
    firsts: Vec<First>,
    ranges: Ranges,
}

/// A fault that gave a mapping its identity.
#[derive(Debug)]
struct First {
    tid: u32,
    end_ns: u64,
    range: Range<u64>,
}

impl Unsettled {
    /// Nothing yet, of a life with these events.
    pub fn of(events: &[Event]) -> Unsettled {
        let changes = Moves::changing(events);
        let is_threaded = events.windows(2).any(|pair| pair[0].tid != pair[1].tid);
        let over_ns = if is_threaded { over_ns(events) } else { Vec::new() };
        Unsettled { changes, over_ns, ..Unsettled::default() }
    }

    /// The same of the child of a fork, of which all is its own from now on.
    pub fn copy_to(&self, child: &mut Unsettled) {
        child.ranges.clone_from(&self.ranges);
    }

    /// Whether more than one thread changes mappings: else all is settled.
    pub fn is_possible(&self) -> bool {
        self.changes.is_of_several()
    }

    /// Whether a page on either side of the address is unsettled.
    pub fn touches(&self, address: u64) -> bool {
        self.ranges.touch(&(address..address))
    }

    /// Whether a call of another thread was changing a part of the range at some instant of `during`, ns.
    pub fn any_change_beside(&self, during: Range<u64>, tid: u32, range: &Range<u64>) -> bool {
        self.changes.any_beside(during, tid, range)
    }

    /// Follows a call of the thread.
    pub fn note_call(&mut self, call: &Call, tid: u32) {
        let Some(result) = call.result.and_then(|result| u64::try_from(result).ok()) else { return };
        let [addr, len, new_len, ..] = call.args;
        let gone = match call.sys {
            Sys::Munmap | Sys::Mremap => pages(addr, len),
            _ => 0..0,
        };
        let new = match call.sys {
            Sys::Mmap => pages(result, len),
            Sys::Mremap => pages(result, new_len),
            _ => 0..0,
        };
        [&gone, &new].into_iter().for_each(|range| self.ranges.remove(range));
        if !new.is_empty() && self.is_undecided(call.start_ns..call.end_ns, tid, &new) {
            self.ranges.add(new);
        }
    }

    /// When the fault of the event at this index was over at the latest: its thread did something else. The
    /// end of time where one thread is alone.
    pub fn end_of_fault_ns(&self, at: usize, event: &Event) -> u64 {
        self.over_ns.get(at).copied().unwrap_or(u64::MAX).max(event.time_ns)
    }

    /// The fault of the event at this index gave the mapping at `range` its identity. It was over when its
    /// thread did something else.
    pub fn note_first_fault(&mut self, at: usize, event: &Event, range: Range<u64>) {
        let end_ns = self.end_of_fault_ns(at, event);
        if self.is_undecided(event.time_ns..end_ns, event.tid, &range) {
            self.ranges.remove(&range);
            self.ranges.add(range.clone());
        }
        self.firsts.retain(|first| first.tid != event.tid);
        self.firsts.push(First { tid: event.tid, end_ns, range });
    }

    /// Whether what the pages beside `range` were, or had for an identity, from the start to the end of
    /// `during` depends on an order that was not recorded.
    fn is_undecided(&self, during: Range<u64>, tid: u32, range: &Range<u64>) -> bool {
        let beside = range.start.saturating_sub(PAGE_SIZE as u64)..range.end.saturating_add(PAGE_SIZE as u64);
        let touches = |other: &Range<u64>| other.start <= range.end && range.start <= other.end;
        self.ranges.touch(range)
            || self.changes.any_beside(during.clone(), tid, &beside)
            || self.firsts.iter().any(|f| f.tid != tid && f.end_ns >= during.start && touches(&f.range))
    }
}

/// When the thread of each event began the next thing that it did.
fn over_ns(events: &[Event]) -> Vec<u64> {
    let mut next_began_ns: HashMap<u32, u64> = HashMap::new();
    let over = |event: &Event| {
        let began_ns = match &event.kind {
            Kind::Call(call) => call.start_ns,
            _ => event.time_ns,
        };
        next_began_ns.insert(event.tid, began_ns).unwrap_or(u64::MAX)
    };
    let mut all: Vec<u64> = events.iter().rev().map(over).collect();
    all.reverse();
    all
}
