//! One attempt to resolve a page fault (protocol P1).
//!
//! ```text
//!   find the mapping ─► check rights ─► walk to the entry ─► decide ─► prepare a frame
//!        RCU                            link absent tables                   │
//!                                                                            ▼
//!   done ◄─ install ◄─ mapping still valid? ◄─ entry as seen? ◄─ attached? ◄─ lock the table
//! ```
//!
//! The steps take a [`Proof`] of why the mapping may be trusted; there is no second copy of them. Everything
//! before the lock reads under RCU and can be thrown away. Under the lock of the table page three questions
//! decide: is the table still attached (P5), is the entry unchanged, is the mapping still valid (P2).
//! From then on the table's lock keeps the table in the tree, so the read section may end before a
//! flush is waited for. If another CPU changed the entry meanwhile, the attempt gives up; the next one looks
//! at the entry that is there now, which may allow the access.
//!
//! Linking a table is an installation like any other (P4): the parent's lock, attached, still valid.
//!
//! In the read section nothing sleeps or waits for memory: lack of free memory ends the attempt with
//! [`Fallback::NoMemory`], and the frame prepared so far stays in [`Prepared`] for the next one.
//!
//! The proofs:
//!
//! | proof | lock held | how a mapping is found | still valid, under the table's lock |
//! |---|---|---|---|
//! | [`Locked`] | the space's lock, shared: no writer replaces mappings | in the index | it is not busy |
//! | [`Speculated`] | nothing | in the index, under RCU | it is live, or a live one says the same |
//!
//! A writer marks a mapping stale before it edits entries under the tables' locks. So a fault that asks under
//! the lock of the table either sees the mark, or installs its entry before the writer takes that lock,
//! and the writer sees the entry. A mapping that is found busy under the space's lock is made live when its
//! publisher has flushed (P3).

use super::huge::{HugeOwner, HugeUse};
use super::huge_zero::map_known_huge_zero;
use super::install::{Decision, FaultInputs, Install, decide, decide_unshare};
use super::prepare::Prepared;
pub use super::proof::{Locked, Proof, Speculated};
use super::{Fallback, Fault};
use crate::machine::{Cpu, Entry, Format, Machine, Marker};
use crate::space::AddressSpace;
use crate::space::counters::Counter;
use crate::sync::{PreemptGuard, PreemptOff, ReadGuard};
use crate::table::{EntryRef, LockedTable, walk_cached, walk_on};
use crate::units::{Access, Level, PageSize, Rights, Vpn, VpnRange};
use crate::vma::{AnonId, Vma, reusable_anon};

/// Tries once to resolve `fault`. `Ok` says that the entry allows the access.
///
/// # Errors
/// Why it gave up.
#[inline(always)]
pub fn attempt<'v, M: Machine, P: Proof<M>>(
    space: &AddressSpace<'v, M>,
    fault: Fault,
    proof: &P,
    prepared: &mut Prepared<'v, M>,
) -> Result<(), Fallback> {
    attempt_with(space, fault, (fault.access.needs(), HugeUse::Whole), proof, prepared, decide)
}

/// Tries once to make the page of `fault` one that may be pinned for its access: a page of private memory
/// gets a frame that is *exclusive*, also for a load. `needs`: the rights that the mapping must have.
///
/// # Errors
/// Why it gave up.
#[inline(never)]
pub fn unshare<'v, M: Machine, P: Proof<M>>(
    space: &AddressSpace<'v, M>,
    fault: Fault,
    needs: Rights,
    proof: &P,
    prepared: &mut Prepared<'v, M>,
) -> Result<(), Fallback> {
    attempt_with(space, fault, (needs, HugeUse::Split), proof, prepared, decide_unshare)
}

#[inline(always)]
fn attempt_with<'v, M: Machine, P: Proof<M>>(
    space: &AddressSpace<'v, M>,
    fault: Fault,
    (needs, huge): (Rights, HugeUse),
    proof: &P,
    prepared: &mut Prepared<'v, M>,
    decide: impl Fn(Entry, FaultInputs) -> Decision,
) -> Result<(), Fallback> {
    let vm = space.vm;
    let reading = vm.rcu.read();
    let page = fault.addr.vpn();
    let vma = space.find_cached(&reading, page).ok_or(Fallback::VmaMissing)?;
    let rights = vma.rights();
    if !rights.contains(needs) {
        return Err(Fallback::VmaAccess);
    }
    let context = FaultContext { space, vma, page, proof, reading: &reading };
    let entry = match context.walk(fault.access, huge, prepared) {
        Err(ended) => return ended,
        Ok(Walked::Base(entry)) => entry,
        Ok(Walked::Huge(entry, HugeOwner::Zero)) => {
            let step = context.at_huge_zero(&entry, fault, huge, prepared, decide)?;
            let slot = entry.slot;
            drop(reading);
            return space.finish_at_huge_zero(step, (slot, page), huge, prepared);
        }
        Ok(Walked::Huge(entry, _)) => {
            let step = context.use_huge(&entry, fault, huge, prepared, decide)?;
            let slot = entry.slot;
            drop(reading);
            return space.finish_at_huge(step, (slot, page), prepared);
        }
        Ok(Walked::Pool(entry, size)) => {
            let step = context.at_pool(&entry, size, (fault.access, huge), prepared)?;
            let slot = entry.slot;
            drop(reading);
            return space.finish_at_pool(step, (slot, page), prepared);
        }
    };
    let decision = decide(entry.entry(), context.inputs(fault.access));
    match decision {
        Decision::Nothing => {
            space.forget_refusal(page, &reading);
            return Ok(());
        }
        Decision::Wait => return Err(Fallback::EntryBusy),
        Decision::WaitForZap => return Err(Fallback::EntryPending),
        Decision::Refuse => return Err(Fallback::VmaNotSupported),
        Decision::MapFrame | Decision::ReplaceZeroPage => {
            prepared.set_placement(vma, page);
            if prepared.lacks_frame() {
                let is_first_store = decision == Decision::MapFrame && fault.access == Access::Write;
                if !vm.huge_sizes.is_never()
                    && is_first_store
                    && context.install_block(entry.again(), prepared)?
                {
                    return Ok(());
                }
                prepared.allocate_frame()?;
            }
        }
        Decision::MapBacking => prepared.find_backing(vma, page, &reading)?,
        Decision::AllowWrite(_) => prepared.prepare_copy(vma, page, entry.entry())?,
        Decision::MapZeroPage | Decision::Allow(_) => {}
    }
    let table = context.lock(&entry, decision, prepared)?;
    if decision == Decision::MapZeroPage {
        vm.counters.count_here(Counter::ZeroPageMapped, &reading);
    }
    let slot = entry.slot;
    drop(reading);
    Install { space, table, slot, page, access: fault.access, rights }.apply(decision, prepared)?;
    if M::Format::REMEMBERS_REFUSALS
        && let Decision::Allow(_) | Decision::AllowWrite(_) = decision
    {
        space.forget_refusal(page, &PreemptGuard::new());
    }
    Ok(())
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Makes this CPU's TLB ask the tables again for a page whose entry allows an access that was refused.
    /// Nothing where a refused access does that by itself. A thread that goes on on another CPU, which
    /// remembers a refusal too, faults there once more.
    #[inline(always)]
    pub(super) fn forget_refusal(&self, page: Vpn, _preempt_off: &impl PreemptOff<M::Cpu>) {
        if M::Format::REMEMBERS_REFUSALS && !mutant!("fault.refusal-remembered") {
            self.vm.machine.flush_range(VpnRange::new(page, page.add(1)));
        }
    }

    /// The mapping that holds the page: the one that this CPU found last, if it holds the page and is live.
    #[inline(always)]
    pub(in crate::space) fn find_cached<'g>(
        &self,
        reading: &'g ReadGuard<'_, M::Cpu>,
        page: Vpn,
    ) -> Option<&'g Vma<M::Cpu>> {
        let found = self.vmas.find_cached(reading, page);
        unless_replaced(found, || self.vmas.find(reading, page))
    }

    /// Gives the mapping an identity for its first private copy: a neighbour's where they could be merged one
    /// day. `None` where the mapping was replaced or is frozen by a writer. Called under the lock of the
    /// table that the copy goes into.
    #[cold]
    pub(super) fn assign_anon(&self, vma: &Vma<M::Cpu>, reading: &ReadGuard<'_, M::Cpu>) -> Option<AnonId> {
        let attributes = vma.attributes();
        let before = Vpn(attributes.range.start.0.wrapping_sub(1));
        let prev = self.vmas.find(reading, before).map(Vma::attributes);
        let next = self.vmas.find(reading, attributes.range.end).map(Vma::attributes);
        let fresh = || AnonId::new(self.vm.numbers.next());
        let reused = reusable_anon(prev, &attributes, next).filter(|_| !mutant!("merge.identity-not-reused"));
        vma.give_anon(reused.unwrap_or_else(fresh))
    }
}

/// The mapping that was found, or the one that is found now if that has been replaced meanwhile. Where none
/// was found, none was cached, so there is nothing that could be out of date.
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

/// The common data of the steps of one attempt.
pub(super) struct FaultContext<'a, 's, 'v, M: Machine, P> {
    pub(super) space: &'s AddressSpace<'v, M>,
    pub(super) vma: &'a Vma<M::Cpu>,
    pub(super) page: Vpn,
    proof: &'a P,
    pub(super) reading: &'a ReadGuard<'a, M::Cpu>,
}

impl<M: Machine, P> Clone for FaultContext<'_, '_, '_, M, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine, P> Copy for FaultContext<'_, '_, '_, M, P> {}

/// Where a fault's walk has ended.
enum Walked<'a, 's, M: Machine> {
    /// At the entry of a base page.
    Base(EntryRef<'a, 's, M>),
    /// At a huge leaf.
    Huge(EntryRef<'a, 's, M>, HugeOwner),
    /// At the entry of a page of the reserved pool, of this size.
    Pool(EntryRef<'a, 's, M>, PageSize),
}

impl<'a, 's, 'v, M: Machine, P: Proof<M>> FaultContext<'a, 's, 'v, M, P> {
    /// The inputs of the decision.
    #[inline(always)]
    pub(super) fn inputs(&self, access: Access) -> FaultInputs {
        FaultInputs {
            private_anonymous: self.vma.is_private_anonymous(),
            rights: self.vma.rights(),
            access,
            zero: self.space.vm.memory.zero_frame(),
        }
    }

    /// Walks to the entry of the page, linking the tables that are absent.
    ///
    /// # Errors
    /// How the attempt has ended: done, where a huge page was installed that allows the access.
    #[inline(always)]
    fn walk(
        &self,
        access: Access,
        huge: HugeUse,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Walked<'a, 's, M>, Result<(), Fallback>> {
        let mut entry = walk_cached(&self.space.table, self.page, self.reading);
        while entry.table.level() != Level::Pte {
            let is_load = access != Access::Write && huge == HugeUse::Whole;
            if is_load
                && entry.entry() == Entry::Absent
                && map_known_huge_zero(self.space, self.vma, self.page, &entry.table, self.reading)
            {
                return Err(Ok(()));
            }
            if let Some(size) = self.vma.pool_size()
                && entry.table.level() == size.level()
            {
                return Ok(Walked::Pool(entry, size));
            }
            match entry.entry() {
                Entry::Absent => {}
                Entry::Marker(Marker::Busy) | Entry::Table(_) => return Err(Err(Fallback::EntryBusy)),
                Entry::Marker(Marker::PendingFree(_)) => return Err(Err(Fallback::EntryPending)),
                Entry::Leaf(leaf) if leaf.owned() => return Ok(Walked::Huge(entry, HugeOwner::Block)),
                Entry::Leaf(leaf) if self.space.table.is_huge_zero(leaf, entry.table.level()) => {
                    return Ok(Walked::Huge(entry, HugeOwner::Zero));
                }
                Entry::Leaf(_) if self.vma.is_given() => return Ok(Walked::Huge(entry, HugeOwner::Nothing)),
                // Another huge leaf, or a marker of another version or mapping: no walk ends below it.
                Entry::Leaf(_) | Entry::Marker(_) => return Err(Err(Fallback::VmaNotSupported)),
            }
            self.link_table(&entry, access, huge, prepared)?;
            entry = walk_on(entry.table, self.page, Level::Pte, self.reading);
        }
        Ok(Walked::Base(entry))
    }

    /// Links an empty table where the walk found none (P4: an installation, under the parent's lock), or
    /// installs a huge page. By value, so that the context lies in memory only here.
    ///
    /// # Errors
    /// How the attempt has ended: done, where a huge page was installed.
    #[cold]
    #[inline(never)]
    fn link_table(
        self,
        entry: &EntryRef<'_, 's, M>,
        access: Access,
        huge: HugeUse,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Result<(), Fallback>> {
        let is_shared = self.vma.backing().is_some() && self.space.vm.shared_huge.is_ever();
        if is_shared && self.install_shared_huge(entry, (access, huge), prepared).map_err(Err)? {
            return Err(Ok(()));
        }
        if huge == HugeUse::Whole && self.install_huge(entry, access, prepared).map_err(Err)? {
            return Err(Ok(()));
        }
        prepared.allocate_table().map_err(Err)?;
        let mut parent = entry.table.lock().ok_or(Err(Fallback::PmdChanged))?;
        if parent.read(entry.slot) == entry.word {
            self.confirm().map_err(Err)?;
            if let Some(table) = prepared.take_table() {
                // Refused: the slot is not absent, which the walk finds out.
                if parent.link(entry.slot, table).is_ok() {
                    self.space.vm.count(Counter::TableAlloc);
                }
            }
        }
        Ok(())
    }

    /// Locks the table and asks the three questions.
    #[inline(always)]
    pub(super) fn lock(
        &self,
        entry: &EntryRef<'_, 's, M>,
        decision: Decision,
        prepared: &Prepared<'v, M>,
    ) -> Result<LockedTable<'s, M>, Fallback> {
        let table = entry.table.lock().ok_or(Fallback::PmdChanged)?;
        if !mutant!("fault.entry-not-rechecked") && table.read(entry.slot) != entry.word {
            return Err(Fallback::EntryBusy);
        }
        let vma = self.confirm()?;
        let takes_frame =
            matches!(decision, Decision::MapFrame | Decision::ReplaceZeroPage | Decision::AllowWrite(_));
        let waits_for_fork =
            takes_frame || mutant!("fault.read-waits-for-fork") && decision == Decision::MapZeroPage;
        if waits_for_fork && self.space.fork.is_behind(self.page) {
            return Err(Fallback::Forking);
        }
        if takes_frame && vma.anon().is_none() {
            self.space.assign_anon(vma, self.reading).ok_or(Fallback::VmaChanged)?;
        }
        // P12: the frame may have left the object since the lookup.
        if decision == Decision::MapBacking && !prepared.is_backing_current(vma, self.page, self.reading) {
            return Err(Fallback::VmaChanged);
        }
        Ok(table)
    }

    #[inline(always)]
    pub(super) fn confirm(&self) -> Result<&Vma<M::Cpu>, Fallback> {
        self.proof.confirm(self.space, self.vma, self.page, self.reading).ok_or(Fallback::VmaChanged)
    }
}
