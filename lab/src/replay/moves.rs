//! Calls that move memory, by the time in which they were under way.

use super::intervals::{Interval, Intervals};
use super::step::pages;
use crate::trace::{Call, Event, Kind, Sys};
use std::ops::Range;

/// The calls of a life that take memory or give it back, by rising start.
#[derive(Debug, Default)]
pub struct Moves {
    moves: Intervals<Move>,
    is_of_several: bool,
}

#[derive(Debug)]
struct Move {
    tid: u32,
    /// What was given, and what was taken back; empty if nothing was.
    ranges: [Range<u64>; 2],
}

impl Moves {
    /// Collects the calls.
    pub fn of(events: &[Event]) -> Moves {
        Moves::from(events.iter().filter_map(move_of).collect())
    }

    /// Collects the calls, and with them those that change mappings where they are.
    pub fn changing(events: &[Event]) -> Moves {
        Moves::from(events.iter().filter_map(|event| move_of(event).or_else(|| change_of(event))).collect())
    }

    fn from(moves: Vec<Interval<Move>>) -> Moves {
        let is_of_several = moves.windows(2).any(|pair| pair[0].what.tid != pair[1].what.tid);
        Moves { moves: Intervals::of(moves), is_of_several }
    }

    /// Whether several threads made the calls.
    pub fn is_of_several(&self) -> bool {
        self.is_of_several
    }

    /// Whether a call of another thread that was under way at some instant from the start to the end of
    /// `during`, ns, moved a part of `range`.
    pub fn any_beside(&self, during: Range<u64>, tid: u32, range: &Range<u64>) -> bool {
        let overlaps = |moved: &Range<u64>| moved.start < range.end && range.start < moved.end;
        let moved = |one: &Move| one.tid != tid && one.ranges.iter().any(overlaps);
        self.moves.any_in(during.start, during.end, moved)
    }
}

fn interval(call: &Call, tid: u32, ranges: [Range<u64>; 2]) -> Interval<Move> {
    Interval { start_ns: call.start_ns, end_ns: call.end_ns, what: Move { tid, ranges } }
}

fn move_of(event: &Event) -> Option<Interval<Move>> {
    let Kind::Call(call) = &event.kind else { return None };
    let result = call.result.and_then(|result| u64::try_from(result).ok())?;
    let [addr, len, new_len, ..] = call.args;
    let ranges = match call.sys {
        Sys::Munmap => [0..0, pages(addr, len)],
        Sys::Mmap => [pages(result, len), 0..0],
        Sys::Mremap => [pages(result, new_len), pages(addr, len)],
        _ => return None,
    };
    Some(interval(call, event.tid, ranges))
}

/// A call that leaves mappings where they are, and may split or join them.
fn change_of(event: &Event) -> Option<Interval<Move>> {
    let Kind::Call(call) = &event.kind else { return None };
    let is_change =
        matches!(call.sys, Sys::Mprotect | Sys::PkeyMprotect | Sys::Madvise) && call.result == Some(0);
    let ranges = [pages(call.args[0], call.args[1]), 0..0];
    is_change.then(|| interval(call, event.tid, ranges))
}
