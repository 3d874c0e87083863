//! One attempt to resolve a page fault (protocol P1).
//!
//! ```text
//!   find the mapping ─► check rights ─► walk to the entry ─► decide ─► prepare ─► lock_and_confirm ─► apply
//! ```
//!
//! A base page of anonymous memory, whose table is there, takes the short way, in this function alone. Every
//! other attempt is [`any`](super::any): the same steps, for each source and size.

use super::confirm::Questions;
use super::decide::{Decision, FaultInputs, Goal, decide};
use super::prepared::Prepared;
pub use super::proof::{Locked, Proof, Speculated, VmaLocked};
use super::source::Source;
use super::{Fallback, Fault, Faults};
use crate::frame::Base;
use crate::machine::{Cpu, Entry, Format, Machine};
use crate::space::AddressSpace;
use crate::space::counters::Counter;
use crate::sync::{PreemptGuard, ReadGuard};
use crate::table::walk_cached;
use crate::units::{Access, Level, Pfn, Rights, Vpn};
use crate::vma::{AnonId, Vma, reusable_anon};

/// How the short way ends otherwise.
enum NotShort {
    /// The attempt has given up.
    GaveUp(Fallback),
    /// It is not for this fault.
    Unusual,
}

impl From<Fallback> for NotShort {
    #[inline(always)]
    fn from(reason: Fallback) -> Self {
        Self::GaveUp(reason)
    }
}

impl<'v, M: Machine> Faults<'_, 'v, M> {
    /// Tries once to resolve `fault`. `Ok` says that the entry allows the access.
    ///
    /// # Errors
    /// Why it gave up.
    #[inline(always)]
    pub(in crate::space) fn attempt<P: Proof<M>>(
        self,
        fault: Fault,
        proof: &P,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        match self.attempt_short(fault, proof, prepared) {
            Ok(()) => Ok(()),
            Err(NotShort::GaveUp(reason)) => Err(reason),
            Err(NotShort::Unusual) => {
                self.attempt_any(fault, (fault.access.needs(), Goal::Access), proof, prepared)
            }
        }
    }

    /// The short way: a base page of anonymous memory, whose table is there.
    #[inline(always)]
    fn attempt_short<P: Proof<M>>(
        self,
        fault: Fault,
        proof: &P,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), NotShort> {
        let (space, vm) = (self.space, self.space.vm);
        let reading = vm.rcu.read();
        let page = fault.addr.vpn();
        let vma = self.find_cached(&reading, page).ok_or(Fallback::VmaMissing)?;
        let held = proof.hold(vma, &reading).ok_or(Fallback::VmaLocked)?;
        if !vma.rights().contains(fault.access.needs()) {
            return Err(Fallback::VmaAccess.into());
        }
        let entry = walk_cached(&space.entries.table, page, &reading);
        if entry.table.level() != Level::Pte || !vma.is_anonymous() {
            let is_done = self.map_known_huge_zero(vma, fault, &entry, &reading);
            return if is_done { Ok(()) } else { Err(NotShort::Unusual) };
        }
        let found = entry.entry();
        // Their rules are a call, in the middle of this way, for which every fault would save registers.
        if let Entry::Marker(_) = found {
            return Err(NotShort::Unusual);
        }
        let context = FaultContext { space, vma, page, proof, reading: &reading };
        let decision = decide(found, context.own_inputs(fault.access), Goal::Access);
        match decision {
            Decision::MapFrame | Decision::ReplaceZeroPage => {
                prepared.set_placement(vma, page);
                if prepared.lacks_frame() {
                    if decision == Decision::MapFrame && !vm.mthp.is_never() {
                        return Err(NotShort::Unusual);
                    }
                    prepared.allocate_frame()?;
                }
            }
            Decision::AllowWrite(_) => prepared.for_copy(vma, page, found)?,
            Decision::MapZeroPage | Decision::Allow(_) => {}
            Decision::Nothing => {
                space.entries.fix_spurious_fault(page, &reading);
                return Ok(());
            }
            other => return Err(why_not(other).into()),
        }
        let asked = (Source::Anonymous, Questions::of::<M>(decision, Source::Anonymous));
        let confirmed = context.lock_and_confirm(&entry, Base, asked, fault.access, prepared)?;
        if decision == Decision::MapZeroPage {
            vm.counters.count_here(Counter::ZeroPageMapped, &reading);
        }
        drop(held);
        drop(reading);
        confirmed.apply(decision, prepared)?;
        if M::Format::REMEMBERS_REFUSALS
            && let Decision::Allow(_) | Decision::AllowWrite(_) = decision
        {
            space.entries.fix_spurious_fault(page, &PreemptGuard::new());
        }
        Ok(())
    }

    /// Tries once to make the page of `fault` one that may be pinned for its access: a page of private memory
    /// gets a frame that is *exclusive*, also for a load. `needs`: the rights that the mapping must have.
    ///
    /// # Errors
    /// Why it gave up.
    #[inline(never)]
    pub(in crate::space) fn unshare<P: Proof<M>>(
        self,
        fault: Fault,
        needs: Rights,
        proof: &P,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        self.attempt_any(fault, (needs, Goal::Pin), proof, prepared)
    }
}

/// Why an attempt gives up with such a decision.
pub(super) const fn why_not(decision: Decision) -> Fallback {
    match decision {
        Decision::WaitForZap => Fallback::EntryPending,
        Decision::Poisoned => Fallback::HugetlbEmpty,
        Decision::Wait => Fallback::EntryBusy,
        Decision::Deny => Fallback::VmaMissing,
        _ => Fallback::VmaNotSupported,
    }
}

/// The common data of the steps of one attempt.
pub(super) struct FaultContext<'a, 's, 'v, M: Machine, P> {
    pub(super) space: &'s AddressSpace<'v, M>,
    pub(super) vma: &'a Vma<M::Cpu>,
    pub(super) page: Vpn,
    pub(super) proof: &'a P,
    pub(super) reading: &'a ReadGuard<'a, M::Cpu>,
}

impl<M: Machine, P> Clone for FaultContext<'_, '_, '_, M, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine, P> Copy for FaultContext<'_, '_, '_, M, P> {}

impl<'a, 's, 'v: 'a, M: Machine, P: Proof<M>> FaultContext<'a, 's, 'v, M, P> {
    /// The inputs of the decision about an entry of anonymous memory of a base page.
    #[inline(always)]
    fn own_inputs(&self, access: Access) -> FaultInputs {
        FaultInputs {
            is_anonymous: true,
            has_object: false,
            is_private: true,
            is_tracked: false,
            rights: self.vma.rights(),
            access,
            zero: self.space.vm.memory.zero_frame(),
        }
    }

    /// The inputs of the decision.
    #[inline(always)]
    pub(super) fn inputs(&self, source: Source<'_, M>, access: Access, zero: Pfn) -> FaultInputs {
        FaultInputs {
            is_anonymous: self.vma.is_anonymous(),
            has_object: !self.vma.is_anonymous() && self.vma.backing().object().is_some(),
            is_private: self.vma.is_private(),
            is_tracked: source.tracked_by(self.vma).is_some(),
            rights: self.vma.rights(),
            access,
            zero,
        }
    }

    #[inline(always)]
    pub(super) fn confirm(&self) -> Result<&Vma<M::Cpu>, Fallback> {
        self.proof.confirm(self.space, self.vma, self.page, self.reading).ok_or(Fallback::VmaChanged)
    }
}

impl<M: Machine> Faults<'_, '_, M> {
    /// Gives the mapping an identity for its first private copy.
    #[cold]
    pub(super) fn assign_anon(self, vma: &Vma<M::Cpu>, reading: &ReadGuard<'_, M::Cpu>) -> Option<AnonId> {
        let attributes = vma.attributes();
        let before = Vpn(attributes.range.start.0.wrapping_sub(1));
        let prev = self.space.mappings.vmas.find(reading, before).map(Vma::attributes);
        let next = self.space.mappings.vmas.find(reading, attributes.range.end).map(Vma::attributes);
        let fresh = || AnonId::new(self.space.vm.numbers.next());
        let reused = reusable_anon(prev, &attributes, next).filter(|_| !mutant!("merge.identity-not-reused"));
        vma.give_anon(reused.unwrap_or_else(fresh))
    }
}

/// The mapping that was found, or the one that is found now if that has been replaced meanwhile.
#[inline(always)]
pub(super) fn unless_replaced<'g, C: Cpu>(
    found: Option<&'g Vma<C>>,
    now: impl FnOnce() -> Option<&'g Vma<C>>,
) -> Option<&'g Vma<C>> {
    match found {
        Some(vma) if !vma.is_live() => now(),
        found => found,
    }
}
