//! Faults and huge pages: a block for a write to memory where no table is yet, and what is done at a huge
//! leaf.
//!
//! ```text
//!   walk ends at an absent entry that could be a huge leaf
//!     policy, mapping, access ─► a base page: link a table, as without huge pages
//!        │ a huge page
//!        ├─ no zone has a block, or none was free (thp_fault_fallback): a base page
//!        ├─ nothing prepared: give up with HugeUnprepared ─► outside of the read section: allocate, zero
//!        └─ prepared: lock the table ─► attached? entry as seen? mapping valid, all pages in it? ─► install
//! ```
//!
//! All of this is on the cold way on which a fault links a table: an attempt whose walk ends at the entry
//! of a base page executes none of it.

use super::attempt::{FaultContext, Proof};
use super::install::{Decision, FaultInputs, Install};
use super::prepare::Prepared;
use super::{Fallback, Fault};
use crate::machine::{Entry, Machine};
use crate::space::AddressSpace;
use crate::space::counters::Counter;
use crate::sync::atomic::Ordering::*;
use crate::table::{EntryRef, LeafBits, LockedTable, Reuse};
use crate::units::{Access, Level, Order, Vpn};
use crate::vma::{HugeRefusal, Vma, ZeroPagePolicy, order_of_fault, pages_of};

/// What an attempt does with huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugeUse {
    /// Uses them as they are, and may install one.
    Whole,
    /// Splits them: it is about one base page that somebody is going to refer to.
    Split,
}

/// What a huge leaf owns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HugeOwner {
    /// Nothing: its frames were given.
    Nothing,
    /// Nothing: it is the huge zero page.
    Zero,
    /// A block of user memory.
    Block,
}

/// What is left of an attempt at a huge leaf once the read section has ended.
pub(super) enum HugeStep<'s, M: Machine> {
    /// Nothing: the leaf allows the access.
    Done,
    /// The leaf is to be split, for somebody who is going to refer to a base page of it.
    Split(LockedTable<'s, M>),
    /// The leaf is to be split, because a store copies a page of it.
    SplitShared(LockedTable<'s, M>),
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Ends an attempt at a huge leaf, with a table prepared where that is to be split. No read section is
    /// open: a split flushes.
    ///
    /// # Errors
    /// [`Fallback::HugeShared`] where a store has split the leaf: it copies a base page next.
    #[cold]
    #[inline(never)]
    pub(super) fn finish_at_huge(
        &self,
        step: HugeStep<'_, M>,
        (slot, page): (usize, Vpn),
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        match step {
            HugeStep::Done => Ok(()),
            HugeStep::Split(mut table) => {
                self.split_prepared(&mut table, slot, page, prepared);
                Ok(())
            }
            HugeStep::SplitShared(mut table) => {
                self.split_prepared(&mut table, slot, page, prepared);
                Err(Fallback::HugeShared)
            }
        }
    }

    /// Whether a store to a huge leaf has to split it, unless its block's record changes: a hint.
    fn may_need_split(&self, entry: Entry) -> bool {
        let Entry::Leaf(leaf) = entry else { return false };
        leaf.owned() && self.vm.memory.meta_of(leaf.pfn).may_block_need_split()
    }
}

impl<M: Machine> AddressSpace<'_, M> {
    /// Refuses huge pages to the faults of this space from now on, or allows them again; huge pages that are
    /// there stay. A fork inherits that. (Linux: `prctl(PR_SET_THP_DISABLE)`.)
    pub fn refuse_huge_pages(&self, refusal: HugeRefusal) {
        self.huge_refusal.store(refusal as u64, Relaxed);
    }

    /// Whether huge pages are refused to the faults of this space.
    pub fn huge_refusal(&self) -> HugeRefusal {
        HugeRefusal::from_bits(self.huge_refusal.load(Relaxed))
    }
}

impl<'s, 'v, M: Machine, P: Proof<M>> FaultContext<'_, 's, 'v, M, P> {
    /// Installs a huge page where `entry`, which is absent, could be a huge leaf, if one is wanted there.
    /// `false` for a base page: a table is to be linked.
    ///
    /// # Errors
    /// Why it gave up; [`Fallback::HugeUnprepared`] where a block is to be prepared before the next attempt.
    pub(super) fn install_huge(
        self,
        entry: &EntryRef<'_, 's, M>,
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<bool, Fallback> {
        let Self { space, vma, page, .. } = self;
        let order = self.order_to_try(vma);
        let is_huge_slot = entry.table.level() == Level::Pmd && entry.entry() == Entry::Absent;
        if !is_huge_slot || order == Order::BASE {
            return Ok(false);
        }
        let is_store = access == Access::Write;
        match space.vm.zero_page {
            ZeroPagePolicy::Huge | ZeroPagePolicy::Virtual if !is_store => {
                return self.map_huge_zero(entry, order, prepared);
            }
            ZeroPagePolicy::Small if !is_store => return Ok(false),
            _ => {}
        }
        prepared.set_placement(vma, page);
        if !prepared.has_huge()? {
            return Ok(false);
        }
        let (mut table, vma) = self.lock_huge(entry, order)?;
        if space.fork.is_behind(pages_of(order, page).start) && !mutant!("thp.fork-ignored") {
            return Err(Fallback::Forking);
        }
        self.note_copy(vma)?;
        let Some(folio) = prepared.take_huge() else { return Err(Fallback::EntryBusy) };
        let bits = LeafBits::new(vma.rights()).used(is_store);
        let birth = space.node.birth(pages_of(order, page).start);
        table.install_huge(entry.slot, folio.into_mapped_at(birth), bits);
        space.vm.counters.count_each([Counter::ThpFaultAlloc, Counter::NrAnonTransparentHugepages]);
        Ok(true)
    }

    /// Locks the table of an entry that is to become a huge leaf of `order`, and asks the questions of an
    /// installation. Returns the mapping that is valid now.
    pub(super) fn lock_huge(
        &self,
        entry: &EntryRef<'_, 's, M>,
        order: Order,
    ) -> Result<(LockedTable<'s, M>, &Vma<M::Cpu>), Fallback> {
        let table = entry.table.lock().ok_or(Fallback::PmdChanged)?;
        if table.read(entry.slot) != entry.word && !mutant!("thp.entry-not-rechecked") {
            return Err(Fallback::EntryBusy);
        }
        let vma = self.confirm()?;
        // The mapping that is valid now may be another one, which says the same of the one page.
        let is_same = core::ptr::eq(vma, self.vma);
        if !is_same && self.order_to_try(vma) != order && !mutant!("thp.region-not-rechecked") {
            return Err(Fallback::VmaChanged);
        }
        Ok((table, vma))
    }

    /// Gives the mapping an identity, if this is its first page of its own.
    pub(super) fn note_copy(&self, vma: &Vma<M::Cpu>) -> Result<(), Fallback> {
        if vma.anon().is_none() {
            self.space.assign_anon(vma, self.reading).ok_or(Fallback::VmaChanged)?;
        }
        Ok(())
    }

    pub(super) fn order_to_try(&self, vma: &Vma<M::Cpu>) -> Order {
        let space = self.space;
        order_of_fault(space.vm.huge_policy, space.huge_refusal(), vma, self.page)
    }

    /// The rest of an attempt whose walk has ended at a huge leaf: its rights may be given back. Not part
    /// of the other attempts, whose entries are all of the last level.
    #[cold]
    #[inline(never)]
    pub(super) fn use_huge(
        self,
        entry: &EntryRef<'_, 's, M>,
        fault: Fault,
        huge: HugeUse,
        prepared: &mut Prepared<'v, M>,
        decide: impl Fn(Entry, FaultInputs) -> Decision,
    ) -> Result<HugeStep<'s, M>, Fallback> {
        let Self { space, page, .. } = self;
        if huge == HugeUse::Split
            && let Entry::Leaf(leaf) = entry.entry()
            && leaf.owned()
        {
            return self.lock_to_split(entry, prepared).map(HugeStep::Split);
        }
        let decision = decide(entry.entry(), self.inputs(fault.access));
        match decision {
            Decision::Nothing => {}
            Decision::Allow(_) | Decision::AllowWrite(_) => {
                let rights = self.vma.rights();
                let is_kept = decision == Decision::Allow(rights);
                if !is_kept && space.may_need_split(entry.entry()) {
                    prepared.allocate_table()?;
                }
                let mut table = self.lock(entry, decision, prepared)?;
                let slot = entry.slot;
                if !is_kept {
                    match table.reuse_huge(slot) {
                        Some(Reuse::WasExclusive) => {}
                        Some(Reuse::BecameExclusive) => space.vm.count(Counter::PgReuse),
                        None if prepared.has_table() => return Ok(HugeStep::SplitShared(table)),
                        // The record has changed since the hint; the next attempt has a table.
                        None => return Err(Fallback::HugeShared),
                    }
                }
                // Its frames stay, whatever the access: nothing is copied.
                let kept = Decision::Allow(rights);
                Install { space, table, slot, page, access: fault.access, rights }.apply(kept, prepared)?;
            }
            _ => return Err(Fallback::VmaNotSupported),
        }
        space.forget_refusal(page, self.reading);
        Ok(HugeStep::Done)
    }

    /// Locks the table of a huge leaf that is to be split, with a table for the parts prepared, and asks the
    /// questions of an installation.
    #[cold]
    #[inline(never)]
    pub(super) fn lock_to_split(
        self,
        entry: &EntryRef<'_, 's, M>,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<LockedTable<'s, M>, Fallback> {
        prepared.allocate_table()?;
        let table = entry.table.lock().ok_or(Fallback::PmdChanged)?;
        if table.read(entry.slot) != entry.word {
            return Err(Fallback::EntryBusy);
        }
        self.confirm()?;
        Ok(table)
    }
}
