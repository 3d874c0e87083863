//! Requests that wait for a CPU: which ranges, up to which generation.

use super::RANGE_LIMIT_PAGES;
use crate::machine::Machine;
use crate::units::VpnRange;

/// Requests kept one by one before they become a full flush. One in models, so that two flushes at once
/// overflow it.
const SLOTS: usize = if cfg!(loom) { 1 } else { 4 };

/// One edit of a space, to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The generation that the edit made.
    pub generation: u64,
    /// The pages edited.
    pub range: VpnRange,
}

impl Request {
    /// Whether dropping single translations is worth it.
    const fn is_small(&self) -> bool {
        self.range.len() <= RANGE_LIMIT_PAGES
    }
}

/// What a CPU has been asked to forget of the space it has loaded. Guarded by the CPU's mailbox lock.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox {
    /// The space that the CPU has loaded or is loading; 0 for none. Requests of others are not for it.
    pub space: u64,
    requests: [Request; SLOTS],
    used: usize,
    /// The newest generation asked for, however many requests were kept.
    newest: u64,
    overflowed: bool,
}

impl Mailbox {
    /// No requests, for a CPU that loads `space`.
    pub const fn new(space: u64) -> Self {
        let none = Request {
            generation: 0,
            range: VpnRange { start: crate::units::Vpn(0), end: crate::units::Vpn(0) },
        };
        Self { space, requests: [none; SLOTS], used: 0, newest: 0, overflowed: false }
    }

    /// Adds a request; a full mailbox asks for everything.
    pub fn post(&mut self, request: Request) {
        self.newest = self.newest.max(request.generation);
        match self.requests.get_mut(self.used) {
            Some(slot) if request.is_small() => {
                *slot = request;
                self.used += 1;
            }
            _ => self.overflowed = true,
        }
    }

    /// Takes everything that is asked for out.
    pub fn take(&mut self) -> Mailbox {
        let taken = *self;
        *self = Mailbox::new(self.space);
        taken
    }

    /// What a CPU that has seen generation `seen` must do.
    pub fn plan(&self, seen: u64) -> Plan<'_> {
        let fresh = |request: &&Request| request.generation > seen;
        let kept = &self.requests[..self.used];
        let all_kept = || kept.iter().filter(fresh).count() as u64 == self.newest - seen;
        if self.newest <= seen {
            Plan::Nothing
        } else if !self.overflowed && (all_kept() || mutant!("mailbox.gap-ignored")) {
            // Generations are unique, so this many newer ones are all between the seen and the newest.
            Plan::Ranges(kept, self.newest)
        } else {
            Plan::Everything(self.newest)
        }
    }
}

/// How a CPU catches up.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan<'a> {
    /// It is as new as anybody asked.
    Nothing,
    /// Forgetting these ranges brings it to the generation.
    Ranges(&'a [Request], u64),
    /// Some request is missing: forgetting everything brings it to the generation.
    Everything(u64),
}

impl Plan<'_> {
    /// Forgets what must be forgotten on this CPU. Returns the generation now seen, where that changes.
    pub fn carry_out<M: Machine>(&self, machine: &M) -> Option<u64> {
        match self {
            Plan::Nothing => None,
            Plan::Ranges(requests, newest) => {
                requests.iter().for_each(|request| machine.flush_range(request.range));
                Some(*newest)
            }
            Plan::Everything(newest) => {
                machine.flush_all();
                Some(*newest)
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::units::Vpn;

    fn request(generation: u64, pages: u64) -> Request {
        Request { generation, range: VpnRange::new(Vpn(16), Vpn(16 + pages)) }
    }

    #[test]
    fn ranges_suffice_only_where_every_generation_came() {
        let mut mailbox = Mailbox::new(7);
        mailbox.post(request(4, 1));
        assert_eq!(mailbox.plan(3), Plan::Ranges(&[request(4, 1)], 4));
        assert_eq!(mailbox.plan(2), Plan::Everything(4));
        assert_eq!(mailbox.plan(4), Plan::Nothing);
        mailbox.post(request(6, 1));
        assert_eq!(mailbox.plan(3), Plan::Everything(6));
        mailbox.post(request(5, 1));
        assert!(matches!(mailbox.plan(3), Plan::Ranges(requests, 6) if requests.len() == 3));
    }

    #[test]
    fn a_full_mailbox_asks_for_everything() {
        let mut mailbox = Mailbox::new(7);
        (1..=SLOTS as u64 + 1).for_each(|generation| mailbox.post(request(generation, 1)));
        assert_eq!(mailbox.plan(0), Plan::Everything(SLOTS as u64 + 1));
        assert_eq!(mailbox.take().plan(0), Plan::Everything(SLOTS as u64 + 1));
        assert_eq!(mailbox.plan(0), Plan::Nothing);
    }

    #[test]
    fn a_large_range_asks_for_everything() {
        let mut mailbox = Mailbox::new(7);
        mailbox.post(request(1, RANGE_LIMIT_PAGES + 1));
        assert_eq!(mailbox.plan(0), Plan::Everything(1));
    }
}
