//! Faults and the huge zero page: a load maps it, a store takes it away.
//!
//! ```text
//!   load, absent entry that could be a huge leaf
//!     the space has a reference ─────────────────► lock, the questions, install: no count is touched
//!       (`map_known_huge_zero`: all that most of them do; where it refuses, the rest of this table decides)
//!     none, and there is a page: get a reference ─► the same; once for a space
//!     no page: give up with HugeUnprepared ───────► outside of the read section: allocate, zero, place
//!     no memory (thp_zero_page_alloc_failed) ─────► a table and the small zero page
//!
//!   store, leaf of the huge zero page
//!     a block prepared ─► lock, the questions ─► Busy ─► flush ─► install the block
//!     none was free ────► lock, the questions ─► Busy ─► flush ─► a table of small zero pages; walk again
//! ```
//!
//! Under `ZeroPagePolicy::Virtual` it is the same with a table of small zero pages that the hardware finds in
//! the entry: for software a leaf too ([`HugeZeroKind::Table`]).
//!
//! The page is never writable, pinned or split: a leaf of it is replaced, or becomes a table of leaves of the
//! small zero page. All of this is on the cold way of `huge`.

use super::attempt::{FaultContext, Proof};
use super::huge::HugeUse;
use super::install::{Decision, FaultInputs, Install};
use super::prepare::Prepared;
use super::prepare_block::PreparedHuge;
use super::{Fallback, Fault};
use crate::frame::{NoHugeZero, Priority, Taken};
use crate::machine::{Entry, Format, Machine, Marker};
use crate::space::AddressSpace;
use crate::space::counters::Counter;
use crate::space::edit::translations_of;
use crate::sync::ReadGuard;
use crate::table::{EntryRef, HugeZero, HugeZeroKind, LeafBits, LockedTable, Table};
use crate::units::{Level, Order, Rights, Vpn, VpnRange};
use crate::vma::{Vma, ZeroPagePolicy, order_of_fault, pages_of};

/// What is left to do at a leaf of the huge zero page, once the read section has ended: a flush is waited
/// for.
pub(super) enum AtHugeZero<'s, M: Machine> {
    /// Nothing: the leaf allows the access.
    Done,
    /// The table is locked, the leaf is to become a table of small zero pages.
    Split(LockedTable<'s, M>),
    /// The table is locked, the leaf is to be replaced by the block that is prepared, with these rights.
    Replace(LockedTable<'s, M>, Rights),
}

/// Maps the huge zero page, to which the space has a reference, where a load's walk has ended at an absent
/// entry of `table`. All that a load does where nothing else is going on, in registers: `false`, and nothing
/// has changed, wherever more is to be looked at, which [`map_huge_zero`](FaultContext::map_huge_zero) does.
///
/// The three questions: the table is attached, or it could not be locked; the entry is absent; the mapping is
/// live, which both proofs accept, and is the one whose pages were looked at.
#[cold]
#[inline(never)]
pub(super) fn map_known_huge_zero<M: Machine>(
    space: &AddressSpace<'_, M>,
    vma: &Vma<M::Cpu>,
    page: Vpn,
    table: &Table<'_, '_, M>,
    reading: &ReadGuard<'_, M::Cpu>,
) -> bool {
    if space.vm.zero_page != ZeroPagePolicy::Huge {
        return show_known_table(space, vma, page, table, reading);
    }
    map_known(space, vma, page, table, (HugeZeroKind::Page, reading))
}

/// As [`map_known_huge_zero`], of the table of zeros, under the other policies.
#[cold]
#[inline(never)]
fn show_known_table<M: Machine>(
    space: &AddressSpace<'_, M>,
    vma: &Vma<M::Cpu>,
    page: Vpn,
    table: &Table<'_, '_, M>,
    reading: &ReadGuard<'_, M::Cpu>,
) -> bool {
    kind_of::<M::Format>(space.vm.zero_page) == Some(HugeZeroKind::Table)
        && map_known(space, vma, page, table, (HugeZeroKind::Table, reading))
}

#[inline(always)]
fn map_known<M: Machine>(
    space: &AddressSpace<'_, M>,
    vma: &Vma<M::Cpu>,
    page: Vpn,
    table: &Table<'_, '_, M>,
    (kind, reading): (HugeZeroKind, &ReadGuard<'_, M::Cpu>),
) -> bool {
    let vm = space.vm;
    let is_wanted = table.level() == Level::Pmd
        && order_of_fault(vm.huge_policy, space.huge_refusal(), vma, page) == Order::HUGE;
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

/// What loads map by one entry under the policy, if anything.
#[inline(always)]
fn kind_of<F: Format>(policy: ZeroPagePolicy) -> Option<HugeZeroKind> {
    match policy {
        ZeroPagePolicy::Huge => Some(HugeZeroKind::Page),
        ZeroPagePolicy::Virtual if F::SHOWS_BY_TABLE => Some(HugeZeroKind::Table),
        _ => None,
    }
}

impl<'s, 'v, M: Machine, P: Proof<M>> FaultContext<'_, 's, 'v, M, P> {
    /// Maps the huge zero page where `entry`, which is absent, could be a huge leaf of `order`. `false` where
    /// there is none to be had: the load gets a small one.
    ///
    /// # Errors
    /// Why it gave up; [`Fallback::HugeUnprepared`] where the page is to be allocated before the next
    /// attempt.
    pub(super) fn map_huge_zero(
        self,
        entry: &EntryRef<'_, 's, M>,
        order: Order,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<bool, Fallback> {
        let Some(zero) = self.find_huge_zero(prepared)? else { return Ok(false) };
        let (mut table, vma) = self.lock_huge(entry, order)?;
        table.install_huge_zero(entry.slot, zero, LeafBits::new(vma.rights()).used(false));
        self.space.vm.count(Counter::ZeroPageMapped);
        Ok(true)
    }

    /// The huge zero page, of which the space has a reference afterwards, or the table that shows one. Waits
    /// for nothing.
    fn find_huge_zero(&self, prepared: &mut Prepared<'v, M>) -> Result<Option<HugeZero>, Fallback> {
        let Some(kind) = kind_of::<M::Format>(self.space.vm.zero_page) else { return Ok(None) };
        if let Some(zero) = self.space.table.huge_zero(kind) {
            return Ok(Some(zero));
        }
        match (self.space.table.take_huge_zero(kind, None), prepared.huge()) {
            (Ok((zero, _)), _) => Ok(Some(zero)),
            (Err(NoHugeZero), PreparedHuge::Lacking) => Ok(None),
            (Err(NoHugeZero), _) => {
                prepared.want_huge_zero();
                Err(Fallback::HugeUnprepared)
            }
        }
    }

    /// Decides what the fault does at `entry`, a leaf of the huge zero page, and locks its table for it.
    #[cold]
    #[inline(never)]
    pub(super) fn at_huge_zero(
        self,
        entry: &EntryRef<'_, 's, M>,
        fault: Fault,
        huge: HugeUse,
        prepared: &mut Prepared<'v, M>,
        decide: impl Fn(Entry, FaultInputs) -> Decision,
    ) -> Result<AtHugeZero<'s, M>, Fallback> {
        let Self { space, page, .. } = self;
        let Entry::Leaf(leaf) = entry.entry() else { return Err(Fallback::EntryBusy) };
        let inputs = FaultInputs { zero: leaf.pfn, ..self.inputs(fault.access) };
        let decision = decide(entry.entry(), inputs);
        match decision {
            Decision::Nothing => {}
            Decision::Allow(_) => {
                let table = self.lock(entry, decision, prepared)?;
                let (slot, access, rights) = (entry.slot, fault.access, self.vma.rights());
                Install { space, table, slot, page, access, rights }.apply(decision, prepared)?;
            }
            Decision::ReplaceZeroPage => return self.lock_to_replace(entry, huge, prepared),
            _ => return Err(Fallback::VmaNotSupported),
        }
        space.forget_refusal(page, self.reading);
        Ok(AtHugeZero::Done)
    }

    fn lock_to_replace(
        self,
        entry: &EntryRef<'_, 's, M>,
        huge: HugeUse,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<AtHugeZero<'s, M>, Fallback> {
        let Self { space, vma, page, .. } = self;
        let order = self.order_to_try(vma);
        let is_unwanted = order != Order::HUGE && !mutant!("zero.replaced-though-refused");
        if huge == HugeUse::Split || is_unwanted {
            return self.lock_to_split(entry, prepared).map(AtHugeZero::Split);
        }
        prepared.set_placement(vma, page);
        if !prepared.has_huge()? {
            return self.lock_to_split(entry, prepared).map(AtHugeZero::Split);
        }
        let (table, vma) = self.lock_huge(entry, order)?;
        if space.fork.is_behind(pages_of(order, page).start) && !mutant!("zero.fork-ignored") {
            return Err(Fallback::Forking);
        }
        self.note_copy(vma)?;
        Ok(AtHugeZero::Replace(table, vma.rights()))
    }
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Allocates what the last attempt lacked of a huge page, of the reserved pool or of the huge zero page.
    /// Called with no lock held and outside of any read section.
    pub(super) fn prepare_huge(&self, prepared: &mut Prepared<'v, M>) {
        if self.prepare_pool_page(prepared) {
            return;
        }
        if !prepared.wants_huge_zero() {
            return prepared.prepare_huge();
        }
        let kind = kind_of::<M::Format>(self.vm.zero_page).ok_or(NoHugeZero);
        let result = kind.and_then(|kind| self.table.take_huge_zero(kind, Some(Priority::Normal)));
        prepared.note_huge_zero(result.is_ok());
        match result {
            Ok((_, Taken::Allocated)) => self.vm.count(Counter::ThpZeroPageAlloc),
            Ok((_, Taken::Shared)) => {}
            // As Linux: the fault was one for a huge page.
            Err(NoHugeZero) => {
                self.vm.counters.count_each([Counter::ThpZeroPageAllocFailed, Counter::ThpFaultFallback]);
            }
        }
    }

    /// Does what [`at_huge_zero`](FaultContext::at_huge_zero) has left, in `slot`, whose leaf holds `page`.
    ///
    /// # Errors
    /// [`Fallback::EntryBusy`] where the leaf is a table now, to which the next attempt walks; not for
    /// `Split`.
    #[cold]
    #[inline(never)]
    pub(super) fn finish_at_huge_zero(
        &self,
        step: AtHugeZero<'_, M>,
        (slot, page): (usize, Vpn),
        huge: HugeUse,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        match step {
            AtHugeZero::Done => Ok(()),
            AtHugeZero::Split(mut table) => {
                self.split_prepared(&mut table, slot, page, prepared);
                if huge == HugeUse::Whole { Err(Fallback::EntryBusy) } else { Ok(()) }
            }
            AtHugeZero::Replace(mut table, rights) => {
                self.replace_huge_zero(&mut table, (slot, pages_of(Order::HUGE, page)), rights, prepared);
                Ok(())
            }
        }
    }

    /// P9, as the replacement of the small zero page: through a marker and a flush, the table locked, else
    /// one CPU would go on reading zeros after another has written.
    fn replace_huge_zero(
        &self,
        table: &mut LockedTable<'_, M>,
        (slot, pages): (usize, VpnRange),
        rights: Rights,
        prepared: &mut Prepared<'v, M>,
    ) {
        let Some(folio) = prepared.take_huge() else { return };
        let cached = translations_of(table, slot, pages);
        if !table.mark(slot, Marker::Busy) {
            return;
        }
        if !mutant!("zero.huge-not-flushed") {
            self.flush_pages(table, cached);
        }
        let block = folio.into_mapped_at(self.node.birth(pages.start));
        table.install_huge(slot, block, LeafBits::new(rights).used(true));
        self.vm.counters.count_each([
            Counter::ThpFaultAlloc,
            Counter::NrAnonTransparentHugepages,
            Counter::ZeroPageReplaced,
        ]);
    }
}
