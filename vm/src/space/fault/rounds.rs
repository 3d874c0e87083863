//! Attempts under the space's lock, one after another.
//!
//! | an attempt has met | before the next one | that is |
//! |---|---|---|
//! | mappings whose publisher may not have flushed | all edits under way end | its own step |
//! | a fork or a sweep under way | the same | its own step |
//! | a lack of memory, of a block, of a copy | that is allocated | its own step |
//! | a lack of a page that a pager fills | that is filled; or one is said to be ready | its own step; one of
//! others |
//! | an entry, a table or a mapping at which another CPU works | it relaxes | nothing |
//!
//! Each of them is to be met no more once that was done. Where it is all the same, and nothing else has
//! changed at the page ([`PageRetry`]), the fault ends as *stalled*.

use super::{Fallback, FaultError, Faults, Prepared};
use crate::machine::Machine;
use crate::space::retry::PageRetry;
use crate::sync::{NoProgress, Progress};
use crate::units::Vpn;

/// What the rounds of one fault know.
struct Rounds {
    /// Whether the backing's index has lacked memory though all that waited had been done.
    has_waited: bool,
    /// Whether the next attempt locks after all edits under way.
    after_writers: bool,
}

impl<'v, M: Machine> Faults<'_, 'v, M> {
    /// Makes attempts at a page under the space's lock, as many as it takes: `attempt` is told whether to
    /// lock after all edits under way. `at`: the page, and the name of the [retry](PageRetry).
    ///
    /// A fault may be refused because of mappings whose publisher has not flushed yet: then other accesses of
    /// the same thread, through this CPU's TLB, would still be served. Such a refusal is looked at again when
    /// no edit is under way; so what it says has happened before it. The same for a mapping that is busy: its
    /// publisher holds the lock, shared, until it is live.
    #[inline(always)]
    pub(in crate::space) fn until_resolved<R>(
        self,
        at: (Vpn, &'static str),
        prepared: &mut Prepared<'v, M>,
        mut first: Option<Fallback>,
        mut attempt: impl FnMut(&mut Prepared<'v, M>, bool) -> Result<R, Fallback>,
    ) -> Result<R, FaultError> {
        let mut rounds = Rounds { has_waited: false, after_writers: false };
        let mut retry = PageRetry::new(at.1);
        loop {
            let result = first.take().map_or_else(|| attempt(prepared, rounds.after_writers), Err);
            let reason = match result {
                Ok(done) if !retry.is_withheld() => return Ok(done),
                Ok(_) => Fallback::EntryBusy,
                Err(reason) => reason,
            };
            let own = self.before_next(reason, prepared, &mut rounds)?;
            retry
                .again_at((&self.space.entries, &self.space.mappings.vmas), at.0, own)
                .map_err(|NoProgress| FaultError::Stalled)?;
        }
    }

    /// Does what an attempt that has given up needs before the next one; whether that was anything.
    ///
    /// # Errors
    /// No other attempt mends it.
    #[inline(never)]
    fn before_next(
        self,
        reason: Fallback,
        prepared: &mut Prepared<'v, M>,
        rounds: &mut Rounds,
    ) -> Result<Progress, FaultError> {
        match reason {
            Fallback::VmaMissing | Fallback::VmaAccess | Fallback::VmaChanged | Fallback::Beyond
                if !rounds.after_writers && self.space.entries.is_edit_pending() =>
            {
                rounds.after_writers = true;
            }
            // A fork or a sweep under way keeps out writers, so it has ended once there are none.
            Fallback::Forking | Fallback::EntryPending => rounds.after_writers = true,
            Fallback::VmaMissing => return Err(FaultError::NotMapped),
            Fallback::VmaAccess => return Err(FaultError::NotAllowed),
            Fallback::NoMemory => {
                let lacked = prepared.wait_for_memory().map_err(|()| FaultError::NoMemory)?;
                if rounds.has_waited && !lacked && !mutant!("fault.waits-for-nothing") {
                    return Err(FaultError::NoMemory);
                }
                rounds.has_waited = !lacked;
                if rounds.has_waited {
                    self.space.vm.try_trim();
                }
            }
            Fallback::VmaNotSupported => return Err(FaultError::NotSupported),
            Fallback::HugetlbEmpty => return Err(FaultError::HugetlbEmpty),
            Fallback::Beyond => return Err(FaultError::Beyond),
            Fallback::Unprepared => return Ok(self.space.entries.bring(prepared)),
            Fallback::CowUnprepared | Fallback::HugeShared => {}
            Fallback::VmaChanged | Fallback::VmaLocked | Fallback::PmdChanged | Fallback::EntryBusy => {
                return Ok(Progress::None);
            }
        }
        Ok(Progress::Own)
    }
}
