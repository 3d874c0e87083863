//! The proofs of an attempt: why the mapping that it has found may be trusted. `attempt` has the table.

use super::Faults;
use crate::machine::Machine;
use crate::space::{AddressSpace, Held, RangeReadGuard};
use crate::sync::ReadGuard;
use crate::units::{Vpn, VpnRange};
use crate::vma::{Vma, same_for_fault};

/// Why a mapping may be trusted.
pub trait Proof<M: Machine> {
    /// The mapping to use, asked under the lock of the table where the entry is installed: `vma`, or one
    /// that says the same of the page. `None` where neither is valid.
    fn confirm<'g>(
        &self,
        space: &'g AddressSpace<'_, M>,
        vma: &'g Vma<M::Cpu>,
        page: Vpn,
        reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>>;
}

/// The space's lock is held, shared.
#[derive(Debug)]
pub struct Locked<'a> {
    held: Held<'a>,
}

impl<'a> Locked<'a> {
    /// The proof that a guard gives for pages of its range.
    pub fn new<M: Machine>(guard: &'a RangeReadGuard<'_, M>) -> Self {
        Self { held: guard.held() }
    }
}

/// No lock is held; the mapping was read under RCU.
#[derive(Debug)]
pub struct Speculated;

impl<M: Machine> Proof<M> for Locked<'_> {
    #[inline(always)]
    fn confirm<'g>(
        &self,
        space: &'g AddressSpace<'_, M>,
        vma: &'g Vma<M::Cpu>,
        page: Vpn,
        _reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>> {
        self.held.assert_covers(space.entries.id(), VpnRange::new(page, page.add(1)));
        (vma.is_live() || mutant!("fault.busy-trusted")).then_some(vma)
    }
}

impl<M: Machine> Proof<M> for Speculated {
    #[inline(always)]
    fn confirm<'g>(
        &self,
        space: &'g AddressSpace<'_, M>,
        vma: &'g Vma<M::Cpu>,
        page: Vpn,
        reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>> {
        let holds = mutant!("fault.mapping-not-rechecked") || vma.is_live();
        if holds { Some(vma) } else { space.faults().find_equivalent(vma, page, reading) }
    }
}

impl<M: Machine> Faults<'_, '_, M> {
    /// The live mapping that says the same of this page as a stale one: the stale one was split, merged or
    /// grew.
    #[cold]
    fn find_equivalent<'g>(
        self,
        vma: &Vma<M::Cpu>,
        page: Vpn,
        reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>> {
        let now = self.space.mappings.vmas.find(reading, page)?;
        (now.is_live() && same_for_fault(&now.attributes(), &vma.attributes(), page)).then_some(now)
    }
}
