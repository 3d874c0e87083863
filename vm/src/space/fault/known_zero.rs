//! The short way of a load that maps the huge zero page, which the space has a reference to.

use super::{Fault, Faults};
use crate::machine::{Entry, Format, Machine};
use crate::space::counters::Counter;
use crate::sync::ReadGuard;
use crate::table::{EntryRef, HugeZeroKind, Table};
use crate::units::{Access, Level, Order, Vpn};
use crate::vma::{Vma, ZeroPagePolicy, order_of_fault};

impl<M: Machine> Faults<'_, '_, M> {
    /// Maps the huge zero page, to which the space has a reference, where a load's walk has ended at an
    /// absent entry above the last level. All that a load does where nothing else is going on, in registers:
    /// `false`, and nothing has changed, wherever more is to be looked at.
    ///
    /// The three questions: the table is attached, or it could not be locked; the entry is absent; the
    /// mapping is live, which all proofs accept, and is the one whose pages were looked at.
    #[inline(always)]
    pub(super) fn map_known_huge_zero(
        self,
        vma: &Vma<M::Cpu>,
        fault: Fault,
        entry: &EntryRef<'_, '_, M>,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> bool {
        let is_load = fault.access != Access::Write && entry.table.level() == Level::Pmd;
        is_load
            && entry.entry() == Entry::Absent
            && self.map_known(vma, fault.addr.vpn(), entry.table, reading)
    }

    /// For each kind a copy of its own, in which the leaf's bits are constants.
    #[cold]
    #[inline(never)]
    fn map_known(
        self,
        vma: &Vma<M::Cpu>,
        page: Vpn,
        table: Table<'_, '_, M>,
        reading: &ReadGuard<'_, M::Cpu>,
    ) -> bool {
        match kind_of::<M::Format>(self.space.vm.zero_page) {
            Some(HugeZeroKind::Page) => self.map_kind(vma, page, table, (HugeZeroKind::Page, reading)),
            Some(HugeZeroKind::Table) => self.map_kind(vma, page, table, (HugeZeroKind::Table, reading)),
            None => false,
        }
    }

    #[inline(always)]
    fn map_kind(
        self,
        vma: &Vma<M::Cpu>,
        page: Vpn,
        table: Table<'_, '_, M>,
        (kind, reading): (HugeZeroKind, &ReadGuard<'_, M::Cpu>),
    ) -> bool {
        let (space, vm) = (self.space, self.space.vm);
        let is_wanted =
            order_of_fault(vm.huge_policy, space.mappings.thp_disable(), vma, page) == Order::HUGE;
        if !is_wanted {
            return false;
        }
        let Some(mut table) = table.lock() else { return false };
        let is_mapped = (vma.is_live() || mutant!("zero.known-mapping-not-rechecked"))
            && table.map_own_huge_zero(Level::Pmd.index(page), vma.rights(), kind);
        if is_mapped {
            vm.counters.count_here(Counter::ZeroPageMapped, reading);
        }
        is_mapped
    }
}

/// What loads map by one entry under the policy, if anything.
#[inline(always)]
pub(super) fn kind_of<F: Format>(policy: ZeroPagePolicy) -> Option<HugeZeroKind> {
    match policy {
        ZeroPagePolicy::Huge => Some(HugeZeroKind::Page),
        ZeroPagePolicy::Virtual if F::SHOWS_BY_TABLE => Some(HugeZeroKind::Table),
        _ => None,
    }
}
