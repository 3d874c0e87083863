//! Flush requests that wait for a CPU: which ranges, up to which generation.

use super::RANGE_LIMIT_PAGES;
use crate::machine::Machine;
use crate::units::VpnRange;

/// Requests kept one by one before they become a full flush. One in models, so that two flushes at once
/// overflow it.
pub(super) const REQUESTS: usize = if cfg!(loom) { 1 } else { 4 };

/// One edit of a space, whose translations are to be flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushRequest {
    /// The generation that the edit made.
    pub generation: u64,
    /// The pages to be dropped: what the flush [names](crate::machine::FlushRange::named).
    pub named: VpnRange,
}

impl FlushRequest {
    /// Whether flushing single pages costs less than flushing everything.
    const fn is_small(&self) -> bool {
        self.named.len() <= RANGE_LIMIT_PAGES
    }
}

/// The flush requests to a CPU, for the space it has loaded. Guarded by the CPU's mailbox lock.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox {
    /// The space that the CPU has loaded or is loading; 0 for none. Requests for other spaces are ignored.
    pub space: u64,
    requests: [FlushRequest; REQUESTS],
    used: usize,
    /// The newest generation asked for, also where its request was not kept.
    newest: u64,
    overflowed: bool,
}

impl Mailbox {
    /// No requests, for a CPU that loads `space`.
    pub const fn new(space: u64) -> Self {
        let none = FlushRequest {
            generation: 0,
            named: VpnRange { start: crate::units::Vpn(0), end: crate::units::Vpn(0) },
        };
        Self { space, requests: [none; REQUESTS], used: 0, newest: 0, overflowed: false }
    }

    /// Adds a request; a full mailbox asks for a full flush. Returns whether the mailbox was empty: where it
    /// was not, the interrupt for what it held is still to come, and answers this request too.
    #[must_use = "who posts the first request interrupts the CPU"]
    pub fn post(&mut self, request: FlushRequest) -> bool {
        let was_empty = self.newest == 0 || mutant!("mailbox.interrupts-not-shared");
        self.newest = self.newest.max(request.generation);
        match self.requests.get_mut(self.used) {
            Some(slot) if request.is_small() => {
                *slot = request;
                self.used += 1;
            }
            _ => self.overflowed = true,
        }
        was_empty
    }

    /// Takes all requests out.
    pub fn take(&mut self) -> Mailbox {
        let taken = *self;
        *self = Mailbox::new(self.space);
        taken
    }

    /// Whether a CPU that has seen generation `seen` is asked for anything.
    pub fn asks_for_more(&self, seen: u64) -> bool {
        self.newest > seen
    }

    /// The flushes that a CPU needs that has seen generation `seen`.
    pub fn catch_up(&self, seen: u64) -> CatchUp<'_> {
        let fresh = |request: &&FlushRequest| request.generation > seen;
        let kept = &self.requests[..self.used];
        let all_kept = || kept.iter().filter(fresh).count() as u64 == self.newest - seen;
        if self.newest <= seen {
            CatchUp::Nothing
        } else if !self.overflowed && (all_kept() || mutant!("mailbox.gap-ignored")) {
            // Generations are unique, so this many newer ones are all between the seen and the newest.
            CatchUp::Ranges(kept, self.newest)
        } else {
            CatchUp::Everything(self.newest)
        }
    }
}

/// How a CPU catches up.
#[derive(Debug, PartialEq, Eq)]
pub enum CatchUp<'a> {
    /// It has seen every generation that was asked for.
    Nothing,
    /// Flushing these ranges brings it to the generation.
    Ranges(&'a [FlushRequest], u64),
    /// Some request is missing: flushing everything brings it to the generation.
    Everything(u64),
}

impl CatchUp<'_> {
    /// Flushes this CPU as far as needed. Returns the generation now seen, where that changes.
    pub fn apply<M: Machine>(&self, machine: &M) -> Option<u64> {
        match self {
            CatchUp::Nothing => None,
            CatchUp::Ranges(requests, newest) => {
                requests.iter().for_each(|request| machine.flush_range(request.named));
                Some(*newest)
            }
            CatchUp::Everything(newest) => {
                machine.flush_all();
                Some(*newest)
            }
        }
    }
}
