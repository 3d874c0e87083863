//! Page faults, from the trap to the store of the entry.
//!
//! | file | step |
//! |---|---|
//! | `mod` | the entry: an attempt without the space's lock, then attempts with it |
//! | `attempt` | one attempt: the short way, of a base page of anonymous memory |
//! | `known_zero` | the short way of a load that maps the huge zero page |
//! | `any` | an attempt for any source and size |
//! | `rounds` | attempts under the lock, one after another, and what ends them |
//! | `proof` | why the mapping that an attempt has found may be trusted |
//! | `source` | what the pages of a mapping are filled from |
//! | `store` | pages that are to be dirty first |
//! | `around` | pages that a load maps besides its own |
//! | `decide` | how to change the entry: a pure function |
//! | `prepared` | what is prepared before the lock, and kept from attempt to attempt |
//! | `wants` | what an attempt asks of that: a want, and what it takes |
//! | `bring` | what is waited for, with no lock held |
//! | `confirm` | the questions of an edit, under the table's lock |
//! | `apply` | the write |
//! | `result` | the results of a fault |
//!
//! [`AddressSpace::fault`] speculates first: an attempt with the proof `Speculated`, which takes no lock that
//! protects other memory (or, as a yardstick, with `VmaLocked`, which holds the mapping's record). Where that
//! gives up, for a reason that is counted, the same attempt runs with the proof `Locked`, which read-locks
//! the space's lock; frames that speculation had prepared are used there. Only the locked path may report an
//! error. docs/design/fault.md has the protocol with its drawing.

mod any;
mod apply;
mod around;
mod attempt;
mod bring;
mod confirm;
mod decide;
mod known_zero;
#[cfg(all(test, loom))]
#[path = "../models/loom_fault.rs"]
mod loom_fault;
mod prepared;
mod proof;
mod result;
mod rounds;
mod source;
mod store;
#[cfg(all(test, not(loom)))]
mod tests;
mod wants;

pub use result::{Fallback, FaultError, Outcome};

use super::counters::Counter;
use super::{AddressSpace, RangeReadGuard, Vm};
use crate::machine::{Cpu, Machine};
use crate::sync::ReadGuard;
use crate::units::{Access, VirtAddr, Vpn, VpnRange};
use crate::vma::{ThpDisable, Vma};

use attempt::unless_replaced;
pub(super) use attempt::{Locked, Proof, Speculated, VmaLocked};
pub(super) use prepared::Prepared;

/// A page fault, as the hardware reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address that could not be translated.
    pub addr: VirtAddr,
    /// The kind of access. Where a fetch from an absent page is refused, a platform that answers as Linux for
    /// x86-64 reports it again, as a load: Linux asks there for any right, maps the page, and refuses the
    /// fetch when the processor tries again and says that the page is present.
    pub access: Access,
}

/// The path that faults of a space take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Path {
    /// Speculate, and take the lock where that gives up.
    #[default]
    Speculative,
    /// Always read-lock the space.
    Locked,
    /// Hold the mapping's record, as Linux does, and take the space's lock where that is refused: a
    /// yardstick.
    VmaLock,
}

impl Path {
    /// All of them.
    pub const ALL: [Path; 3] = [Path::Speculative, Path::VmaLock, Path::Locked];

    /// The name in tables, in JSON and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Path::Speculative => "speculative",
            Path::VmaLock => "vma-lock",
            Path::Locked => "locked",
        }
    }

    /// How a fault ends that does not fall back.
    #[cfg(all(test, not(loom)))]
    pub(in crate::space) const fn outcome(self) -> Outcome {
        match self {
            Path::Speculative => Outcome::Speculated,
            Path::VmaLock => Outcome::VmaLocked,
            Path::Locked => Outcome::Locked,
        }
    }
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Resolves a page fault.
    ///
    /// Called with no lock held and outside any RCU read section; may sleep. When it returns, the access is
    /// to be tried again: it may fault again where another thread changed the mapping meanwhile.
    ///
    /// # Errors
    /// The signal that the faulting thread deserves.
    pub fn fault(&self, fault: Fault) -> Result<Outcome, FaultError> {
        self.faults().resolve(fault)
    }

    /// Sets which huge pages the faults of this space may map from now on; huge pages that are there stay. A
    /// fork inherits that. (Linux: `prctl(PR_SET_THP_DISABLE)`.)
    pub fn set_thp_disable(&self, thp_disable: ThpDisable) {
        self.mappings.set_thp_disable(thp_disable);
    }

    /// Which huge pages the faults of this space may not map. (Linux: `prctl(PR_GET_THP_DISABLE)`.)
    pub fn thp_disable(&self) -> ThpDisable {
        self.mappings.thp_disable()
    }

    /// The faults of the space.
    #[inline(always)]
    pub(super) fn faults(&self) -> Faults<'_, 'v, M> {
        Faults { space: self }
    }
}

/// The faults of a space: the attempts, with the lock and without it. One word: of a space they need all but
/// the layout and the limits, in registers.
pub(super) struct Faults<'s, 'v, M: Machine> {
    space: &'s AddressSpace<'v, M>,
}

impl<M: Machine> Clone for Faults<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Faults<'_, '_, M> {}

impl<'s, 'v, M: Machine> Faults<'s, 'v, M> {
    /// As [`AddressSpace::fault`]. A function of its own: inlined into several callers, it would not have the
    /// attempts inlined.
    #[inline(never)]
    fn resolve(self, fault: Fault) -> Result<Outcome, FaultError> {
        let vm = self.space.vm;
        let mut prepared = Prepared::new(vm);
        // What is zeroed early is zeroed for nothing where a frame is copied, or a folio installed.
        if fault.access == Access::Write && !self.space.entries.fork.allocates_late() {
            prepared.allocate_early();
        }
        let (outcome, first) = match self.space.path {
            Path::Locked => {
                vm.count(Counter::PgFault);
                match self.attempt_locked(fault, &mut prepared, false) {
                    Ok(()) => return Ok(Outcome::Locked),
                    Err(reason) => (Outcome::Locked, Some(reason)),
                }
            }
            Path::Speculative => match self.without_lock(fault, &Speculated, &mut prepared) {
                Ok(()) => {
                    if mutant!("fault.not-counted") {
                        vm.count(Counter::SpeculativePgFault);
                    } else {
                        vm.counters.count_each([Counter::PgFault, Counter::SpeculativePgFault]);
                    }
                    prepared.finish();
                    return Ok(Outcome::Speculated);
                }
                Err(reason) => {
                    vm.count(Counter::PgFault);
                    (Outcome::FellBack(reason), None)
                }
            },
            Path::VmaLock => return self.resolve_with_vma_lock(fault, prepared),
        };
        self.go_on_locked(outcome, fault, &mut prepared, first)
    }

    /// As [`resolve`](Self::resolve), with the mapping's record held. By value, so that what is prepared lies
    /// in memory only here; cold, so that the other paths are not the slower for it.
    #[cold]
    #[inline(never)]
    fn resolve_with_vma_lock(
        self,
        fault: Fault,
        mut prepared: Prepared<'v, M>,
    ) -> Result<Outcome, FaultError> {
        match self.without_lock(fault, &VmaLocked, &mut prepared) {
            Ok(()) => {
                self.space.vm.counters.count_each([Counter::PgFault, Counter::VmaLockSuccess]);
                prepared.finish();
                Ok(Outcome::VmaLocked)
            }
            Err(reason) => {
                self.space.vm.count(Counter::PgFault);
                self.go_on_locked(Outcome::FellBack(reason), fault, &mut prepared, None)
            }
        }
    }

    /// Goes on under the space's lock; `outcome` is how the fault ends if it is resolved there.
    #[inline(always)]
    fn go_on_locked(
        self,
        outcome: Outcome,
        fault: Fault,
        prepared: &mut Prepared<'v, M>,
        first: Option<Fallback>,
    ) -> Result<Outcome, FaultError> {
        let result = self.fault_locked(fault, prepared, first);
        if result.is_err() {
            self.space.vm.count(Counter::PgFaultError);
        }
        result.map(|()| outcome)
    }

    /// Makes a page present without a fault of the hardware: populating. Shares the space's lock.
    pub(super) fn make_present(self, fault: Fault) -> Result<(), FaultError> {
        self.fault_locked(fault, &mut Prepared::new(self.space.vm), None)
    }

    /// As [`make_present`](Self::make_present), but speculates first, so that several CPUs that populate do
    /// not contend for the space's lock.
    pub(super) fn make_present_speculatively(self, fault: Fault) -> Result<(), FaultError> {
        match self.attempt(fault, &Speculated, &mut Prepared::new(self.space.vm)) {
            Ok(()) => Ok(()),
            Err(_) => self.make_present(fault),
        }
    }

    /// Tries without the space's lock.
    ///
    /// # Errors
    /// Why it gave up, which has been counted.
    #[inline(always)]
    fn without_lock<P: Proof<M>>(
        self,
        fault: Fault,
        proof: &P,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let mut result = self.attempt(fault, proof, prepared);
        if let Err(reason) = result
            && reason.is_brief()
        {
            result = self.without_lock_again(fault, proof, prepared, reason);
        }
        result.inspect_err(|&reason| self.space.vm.count_fallback(fault, reason))
    }

    /// A second attempt. Where another CPU was at work on the same mapping or entry, that lasts a few stores:
    /// a writer publishes the new mapping right after it marks the old one stale, and a fault that was faster
    /// has installed its entry. Else the first attempt has found out what it needs; a folio for a huge page
    /// is prepared here, outside of the read section.
    #[cold]
    #[inline(never)]
    fn without_lock_again<P: Proof<M>>(
        self,
        fault: Fault,
        proof: &P,
        prepared: &mut Prepared<'v, M>,
        reason: Fallback,
    ) -> Result<(), Fallback> {
        if !reason.is_unprepared() {
            M::Cpu::spin(1);
        }
        let _one_more_in_any_case = self.space.entries.bring(prepared);
        self.attempt(fault, proof, prepared)
    }

    /// Tries once under the space's lock, to read: at once, or after all edits under way.
    #[inline(always)]
    fn attempt_locked(
        self,
        fault: Fault,
        prepared: &mut Prepared<'v, M>,
        after_writers: bool,
    ) -> Result<(), Fallback> {
        let guard = self.read_lock_page(fault.addr.vpn(), after_writers);
        self.attempt(fault, &Locked::new(&guard), prepared)
    }

    /// Locks a page to read: at once, or after all edits under way.
    #[inline(always)]
    pub(super) fn read_lock_page(self, page: Vpn, after_writers: bool) -> RangeReadGuard<'s, M> {
        let page = VpnRange::new(page, page.add(1));
        if after_writers {
            self.space.mappings.read_after_writers(page)
        } else {
            self.space.mappings.read(page)
        }
    }

    /// Resolves the fault under the space's lock, to read; `first` is why the first attempt gave up, if that
    /// was made. Not part of [`resolve`](Self::resolve), whose first attempts go without a call and without
    /// preparing for a second one.
    #[inline(never)]
    fn fault_locked(
        self,
        fault: Fault,
        prepared: &mut Prepared<'v, M>,
        first: Option<Fallback>,
    ) -> Result<(), FaultError> {
        self.until_resolved((fault.addr.vpn(), "fault"), prepared, first, |prepared, after_writers| {
            self.attempt_locked(fault, prepared, after_writers)
        })
    }

    /// The mapping that holds the page: the one that this CPU found last, if it holds the page and is live.
    #[inline(always)]
    pub(super) fn find_cached<'g>(
        self,
        reading: &'g ReadGuard<'_, M::Cpu>,
        page: Vpn,
    ) -> Option<&'g Vma<M::Cpu>> {
        let found = self.space.mappings.vmas.find_cached(reading, page);
        unless_replaced(found, || self.space.mappings.vmas.find(reading, page))
    }

    /// As [`Proof::confirm`].
    #[inline(always)]
    pub(super) fn confirm<'g, P: Proof<M>>(
        self,
        proof: &P,
        vma: &'g Vma<M::Cpu>,
        page: Vpn,
        reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>>
    where
        's: 'g,
    {
        proof.confirm(self.space, vma, page, reading)
    }

    /// The path of the space's faults.
    #[inline(always)]
    pub(super) fn path(self) -> Path {
        self.space.path
    }
}

impl<M: Machine> Vm<'_, M> {
    #[cold]
    fn count_fallback(&self, fault: Fault, reason: Fallback) {
        self.count(reason.counter());
        self.machine.event(reason.counter().name(), fault.addr.0);
    }
}
