//! Calls that move memory, by the time in which they were under way.

use super::step::pages;
use crate::trace::{Event, Kind, Sys};
use std::ops::Range;

/// The calls of a life that take memory or give it back, by rising start.
#[derive(Debug, Default)]
pub struct Moves {
    moves: Vec<Move>,
    /// For each, the latest end of it and those before it.
    latest_end_ns: Vec<u64>,
}

#[derive(Debug)]
struct Move {
    start_ns: u64,
    end_ns: u64,
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

    fn from(mut moves: Vec<Move>) -> Moves {
        moves.sort_by_key(|m| m.start_ns);
        let mut latest = 0;
        let latest_end_ns = moves.iter().map(|m| {
            latest = latest.max(m.end_ns);
            latest
        });
        let latest_end_ns = latest_end_ns.collect();
        Moves { moves, latest_end_ns }
    }

    /// Whether several threads made the calls.
    pub fn is_of_several(&self) -> bool {
        self.moves.windows(2).any(|pair| pair[0].tid != pair[1].tid)
    }

    /// Whether a call of another thread that was under way at some instant from the start to the end of
    /// `during`, ns, moved a part of `range`.
    pub fn any_beside(&self, during: Range<u64>, tid: u32, range: &Range<u64>) -> bool {
        let from_here = self.moves.partition_point(|m| m.start_ns <= during.end);
        let overlaps = |moved: &Range<u64>| moved.start < range.end && range.start < moved.end;
        (0..from_here)
            .rev()
            .take_while(|&at| self.latest_end_ns[at] >= during.start)
            .map(|at| &self.moves[at])
            .any(|m| m.tid != tid && m.end_ns >= during.start && m.ranges.iter().any(overlaps))
    }
}

fn move_of(event: &Event) -> Option<Move> {
    let Kind::Call(call) = &event.kind else { return None };
    let result = call.result.and_then(|result| u64::try_from(result).ok())?;
    let [addr, len, new_len, ..] = call.args;
    let ranges = match call.sys {
        Sys::Munmap => [0..0, pages(addr, len)],
        Sys::Mmap => [pages(result, len), 0..0],
        Sys::Mremap => [pages(result, new_len), pages(addr, len)],
        _ => return None,
    };
    Some(Move { start_ns: call.start_ns, end_ns: call.end_ns, tid: event.tid, ranges })
}

/// A call that leaves mappings where they are, and may split or join them.
fn change_of(event: &Event) -> Option<Move> {
    let Kind::Call(call) = &event.kind else { return None };
    let is_change =
        matches!(call.sys, Sys::Mprotect | Sys::PkeyMprotect | Sys::Madvise) && call.result == Some(0);
    let ranges = [pages(call.args[0], call.args[1]), 0..0];
    is_change.then_some(Move { start_ns: call.start_ns, end_ns: call.end_ns, tid: event.tid, ranges })
}
