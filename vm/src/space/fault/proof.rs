//! The proofs of an attempt: why the mapping that it has found may be trusted.
//!
//! | proof | holds | trusts the mapping under the table's lock | a writer |
//! |---|---|---|---|
//! | [`Locked`] | the space's lock, shared | if it is not busy | waits for the lock |
//! | [`Speculated`] | nothing | if it is live still, or one that says the same of the page | waits for none |
//! | [`VmaLocked`] | the mapping's record, as one of its readers | always | waits for readers, once it has
//! marked |
//!
//! `VmaLocked` is Linux's lock of a mapping, as a yardstick: what two read-modify-writes on a line of each
//! mapping cost that all of its faults share. The record is held in a read section, from the lookup until the
//! table is locked and the questions are answered; from there on the table's lock keeps the writer out.

use super::Faults;
use crate::machine::Machine;
use crate::space::{AddressSpace, RangeReadGuard, RangeToken};
use crate::sync::ReadGuard;
use crate::units::{Vpn, VpnRange};
use crate::vma::{Vma, VmaHold, same_for_fault};

/// Why a mapping may be trusted.
pub trait Proof<M: Machine> {
    /// What an attempt holds of the mapping that it has found.
    type Hold<'g>;

    /// Takes hold of the mapping that was found. `None` where that is refused.
    fn hold<'g>(&self, vma: &'g Vma<M::Cpu>, reading: &'g ReadGuard<'_, M::Cpu>) -> Option<Self::Hold<'g>>;

    /// The mapping to use, asked under the lock of the table where the entry is installed: `vma`, or one
    /// that says the same of the page. `None` where neither is valid. `vma` is [held](Self::hold) until then.
    fn confirm<'g>(
        &self,
        space: &'g AddressSpace<'_, M>,
        vma: &'g Vma<M::Cpu>,
        page: Vpn,
        reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>>;
}

/// The space's lock is held to read.
#[derive(Debug)]
pub struct Locked<'a> {
    token: RangeToken<'a>,
}

impl<'a> Locked<'a> {
    /// The proof that a guard gives for pages of its range.
    pub fn new<M: Machine>(guard: &'a RangeReadGuard<'_, M>) -> Self {
        Self { token: guard.token() }
    }
}

/// No lock is held; the mapping was read under RCU.
#[derive(Debug)]
pub struct Speculated;

/// The mapping's record is held by a reader, in a read section.
#[derive(Debug)]
pub struct VmaLocked;

impl<M: Machine> Proof<M> for Locked<'_> {
    type Hold<'g> = ();

    #[inline(always)]
    fn hold<'g>(&self, _vma: &'g Vma<M::Cpu>, _reading: &'g ReadGuard<'_, M::Cpu>) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn confirm<'g>(
        &self,
        space: &'g AddressSpace<'_, M>,
        vma: &'g Vma<M::Cpu>,
        page: Vpn,
        _reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>> {
        self.token.assert_covers(space.entries.id(), VpnRange::new(page, page.add(1)));
        (vma.is_live() || mutant!("fault.busy-trusted")).then_some(vma)
    }
}

impl<M: Machine> Proof<M> for Speculated {
    type Hold<'g> = ();

    #[inline(always)]
    fn hold<'g>(&self, _vma: &'g Vma<M::Cpu>, _reading: &'g ReadGuard<'_, M::Cpu>) -> Option<()> {
        Some(())
    }

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

impl<M: Machine> Proof<M> for VmaLocked {
    type Hold<'g> = VmaHold<'g, M::Cpu>;

    #[inline(always)]
    fn hold<'g>(
        &self,
        vma: &'g Vma<M::Cpu>,
        reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<VmaHold<'g, M::Cpu>> {
        vma.hold(reading)
    }

    /// The writer that has marked it since waits for this reader, and edits entries afterwards.
    #[inline(always)]
    fn confirm<'g>(
        &self,
        _space: &'g AddressSpace<'_, M>,
        vma: &'g Vma<M::Cpu>,
        _page: Vpn,
        _reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>> {
        Some(vma)
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
