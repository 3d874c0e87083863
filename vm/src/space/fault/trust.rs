//! Why a mapping may be trusted (protocol P1).
//!
//! | proof | what is held | how a mapping is found | still valid, under the table's lock |
//! |---|---|---|---|
//! | [`Locked`] | the space's lock, shared: no writer replaces mappings | in the index | always |
//! | [`Speculated`] | nothing | in the index, under RCU | it is live; or a live one says the same of this page |
//!
//! A writer marks a mapping stale before it edits entries under the tables' locks. So a fault that asks under
//! the lock of the table either sees the mark, or installs its entry before the writer takes that lock,
//! and the writer sees the entry.

use crate::machine::{Cpu, Machine};
use crate::space::AddressSpace;
use crate::sync::{ReadGuard, RwReadGuard, lockdep};
use crate::units::Vpn;
use crate::vma::{Vma, same_for_fault};
use core::marker::PhantomData;

/// Why a mapping may be trusted.
pub trait Proof<M: Machine> {
    /// The mapping to use, asked under the lock of the table where the entry is installed: `vma`, or one
    /// that says the same of the page. `None` where what `vma` said no longer holds.
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
pub struct Locked<'a, C: Cpu> {
    _held: PhantomData<&'a RwReadGuard<'a, C, { lockdep::SPACE.0 }>>,
}

impl<'a, C: Cpu> Locked<'a, C> {
    /// The proof that a guard of the lock gives.
    pub fn new(_held: &'a RwReadGuard<'_, C, { lockdep::SPACE.0 }>) -> Self {
        Self { _held: PhantomData }
    }
}

/// No lock is held; the mapping was read under RCU.
#[derive(Debug)]
pub struct Speculated;

impl<M: Machine> Proof<M> for Locked<'_, M::Cpu> {
    #[inline(always)]
    fn confirm<'g>(
        &self,
        _space: &'g AddressSpace<'_, M>,
        vma: &'g Vma<M::Cpu>,
        _page: Vpn,
        _reading: &'g ReadGuard<'_, M::Cpu>,
    ) -> Option<&'g Vma<M::Cpu>> {
        debug_assert!(vma.is_live(), "a mapping changed under the space's shared lock");
        Some(vma)
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
        if holds { Some(vma) } else { find_equivalent(space, vma, page, reading) }
    }
}

/// The live mapping that says the same of this page as a stale one: the stale one was split, merged or grew.
#[cold]
fn find_equivalent<'g, M: Machine>(
    space: &'g AddressSpace<'_, M>,
    vma: &Vma<M::Cpu>,
    page: Vpn,
    reading: &'g ReadGuard<'_, M::Cpu>,
) -> Option<&'g Vma<M::Cpu>> {
    let now = space.vmas.find(reading, page)?;
    (now.is_live() && same_for_fault(&now.attributes(), &vma.attributes(), page)).then_some(now)
}
