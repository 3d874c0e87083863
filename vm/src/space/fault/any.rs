//! An attempt for any source and size: what the short way of `attempt` does not do.
//!
//! ```text
//!   walk ─► a table is missing and none of the source's sizes fits here ─► link it, walk on
//!              │ else
//!              ▼
//!   decide ─► find, without sleeping (`source`) ─► lock_and_confirm ─► the read section ends ─► one edit
//! ```

use super::attempt::{FaultContext, why_not};
use super::confirm::{Confirmed, Questions};
use super::decide::{Decision, Goal, decide};
use super::known_zero::kind_of;
use super::prepared::{Owner, Prepared, Want};
use super::proof::Proof;
use super::source::Source;
use super::{Fallback, Fault, Faults};
use crate::frame::NoHugeZero;
use crate::machine::{Entry, Machine};
use crate::space::counters::Counter;
use crate::space::edit::Split;
use crate::sync::PreemptGuard;
use crate::table::{AtPin, AtSharedStore, EntryRef, LeafBits, LeafClass, ZeroLeaf, walk_cached, walk_on};
use crate::units::{Access, Level, Order, PageSize, Rights};
use crate::vma::{OrderSet, ZeroPagePolicy, pages_of};

/// What an attempt does once the read section has ended.
enum Edit {
    /// The decision about a base page.
    Base(Decision),
    /// Zeros are mapped by one leaf.
    Zero(ZeroLeaf),
    /// The folio that is prepared is mapped.
    Folio(Order),
    /// The leaf gets these rights.
    Allow(Rights),
    /// The folio is to be the space's alone, by reuse, by a copy, or by a split and a copy of a base page.
    Own(Rights, LeafClass),
    /// A folio of the space's own takes the place of zeros.
    ReplaceZeros,
    /// The leaf is to be split.
    Split,
}

impl Edit {
    /// Whether a leaf that is there gets rights, which a TLB may remember to be refused.
    const fn gives_rights(&self) -> bool {
        matches!(
            self,
            Self::Allow(_) | Self::Own(..) | Self::Base(Decision::Allow(_) | Decision::AllowWrite(_))
        )
    }
}

impl<'v, M: Machine> Faults<'_, 'v, M> {
    /// Tries once. `needs`: the rights that the mapping must have.
    ///
    /// # Errors
    /// Why it gave up.
    #[inline(never)]
    pub(super) fn attempt_any<P: Proof<M>>(
        self,
        fault: Fault,
        (needs, goal): (Rights, Goal),
        proof: &P,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let space = self.space;
        let reading = space.vm.rcu.read();
        let page = fault.addr.vpn();
        let vma = self.find_cached(&reading, page).ok_or(Fallback::VmaMissing)?;
        let held = proof.hold(vma, &reading).ok_or(Fallback::VmaLocked)?;
        if !vma.rights().contains(needs) {
            return Err(Fallback::VmaAccess);
        }
        let source = Source::of(space.vm, vma, &reading)?;
        let context = FaultContext { space, vma, page, proof, reading: &reading };
        let mut entry = walk_cached(&space.entries.table, page, &reading);
        let (order, edit, ask) = loop {
            if let Some(planned) = context.plan(source, &entry, (fault.access, goal), prepared)? {
                break planned;
            }
            context.link_table(source, &entry, fault.access, prepared)?;
            entry = walk_on(entry.table, page, Level::Pte, &reading);
        };
        if let Edit::Base(Decision::Nothing) = edit {
            space.entries.fix_spurious_fault(page, &reading);
            return Ok(());
        }
        let confirmed = context.lock_and_confirm(&entry, order, (source, ask), fault.access, prepared);
        let mut confirmed = confirmed.inspect_err(|_| prepared.forget_found())?;
        if let (Edit::Base(Decision::MapSource(rights)), Goal::Access) = (&edit, goal) {
            context.map_around(source, *rights, &mut confirmed);
        }
        // A flush may be waited for from here on.
        drop(held);
        drop(reading);
        let gives_rights = edit.gives_rights();
        confirmed.edit(edit, goal, prepared)?;
        if gives_rights {
            space.entries.fix_spurious_fault(page, &PreemptGuard::new());
        }
        Ok(())
    }
}

impl<'a, 's, 'v: 'a, M: Machine, P: Proof<M>> FaultContext<'a, 's, 'v, M, P> {
    /// What is to be done at the entry in which a walk has ended. `None`: a table is to be linked there.
    fn plan(
        &self,
        source: Source<'_, M>,
        entry: &EntryRef<'_, 's, M>,
        (access, goal): (Access, Goal),
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Option<(Order, Edit, Questions)>, Fallback> {
        let level = entry.table.level();
        let (leaf, class) = match entry.entry() {
            Entry::Leaf(leaf) => (Some(leaf), Some(self.space.entries.table.class_of(leaf, level))),
            _ => (None, None),
        };
        let size = level.leaf_size().map_or(Order::BASE, PageSize::order);
        let zeros = leaf.filter(|_| class.is_some_and(LeafClass::is_zeros));
        let zero = zeros.map_or_else(|| self.space.vm.memory.zero_frame(), |leaf| leaf.pfn);
        let decision = decide(entry.entry(), self.inputs(source, access, zero), goal);
        let ask = Questions::of(decision, source);
        let done = |edit| Ok(Some((size, edit, ask)));
        let is_pinned = goal == Goal::Pin && level != Level::Pte;
        if is_pinned && class.is_some_and(|class| class.at_pin() == AtPin::Split) {
            prepared.allocate_table()?;
            return done(Edit::Split);
        }
        match decision {
            Decision::Nothing => done(Edit::Base(decision)),
            Decision::MapZeroPage if level == Level::Pte => done(Edit::Base(decision)),
            Decision::MapZeroPage if level != Level::Pmd => Ok(None),
            Decision::MapZeroPage => match self.find_zeros(access, prepared)? {
                Some(zero) => done(Edit::Zero(zero)),
                None if self.space.vm.zero_page != ZeroPagePolicy::None => Ok(None),
                None => self.plan_map(source, entry, (access, goal), ask, prepared),
            },
            Decision::MapFrame | Decision::MapSource(_) | Decision::CopySource => {
                match self.plan_map(source, entry, (access, goal), ask, prepared)? {
                    Some((Order::BASE, ..)) if level == Level::Pte => {}
                    planned => return Ok(planned),
                }
                if decision == Decision::CopySource {
                    prepared.allocate_frame()?;
                }
                done(Edit::Base(decision))
            }
            Decision::ReplaceZeroPage => done(self.plan_replacement(source, level, prepared)?),
            Decision::Allow(rights) => {
                let ask = self.ask_to_allow(source, access, ask, prepared)?;
                Ok(Some((size, Edit::Allow(rights), ask)))
            }
            Decision::AllowWrite(_) if level == Level::Pte => {
                prepared.for_copy(self.vma, self.page, entry.entry())?;
                done(Edit::Base(decision))
            }
            Decision::AllowWrite(rights) => {
                let (leaf, class) = leaf.zip(class).ok_or(Fallback::VmaNotSupported)?;
                let may_split = class.at_shared_store() == AtSharedStore::Split;
                if may_split && self.space.vm.memory.meta_of(leaf.pfn).may_folio_need_split() {
                    prepared.allocate_table()?;
                }
                done(Edit::Own(rights, class))
            }
            other => Err(why_not(other)),
        }
    }

    /// Plans what takes the place of zeros: a frame; of those that one leaf shows a folio, or base pages.
    fn plan_replacement(
        &self,
        source: Source<'_, M>,
        level: Level,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Edit, Fallback> {
        prepared.set_placement(self.vma, self.page);
        if level == Level::Pte {
            prepared.allocate_frame()?;
            return Ok(Edit::Base(Decision::ReplaceZeroPage));
        }
        let orders = self.orders(source, self.vma, Access::Write);
        let huge = OrderSet::EMPTY.with(Order::HUGE);
        let is_wanted = orders.contains(Order::HUGE) || mutant!("zero.replaced-though-refused");
        if is_wanted && prepared.want_folio(Owner::Space, huge)?.is_some() {
            return Ok(Edit::ReplaceZeros);
        }
        prepared.allocate_table()?;
        Ok(Edit::Split)
    }

    /// Plans to map what the source has, by a leaf of this entry's level or by several below.
    fn plan_map(
        &self,
        source: Source<'_, M>,
        entry: &EntryRef<'_, 's, M>,
        (access, goal): (Access, Goal),
        ask: Questions,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Option<(Order, Edit, Questions)>, Fallback> {
        if !source.ends_at(entry.table.level()) && entry.table.level() > Level::Pmd {
            return Ok(None);
        }
        let found = self.find(source, entry, (access, goal), prepared)?;
        Ok(found.map(|order| (order, Edit::Folio(order), ask)))
    }

    /// The zeros that one leaf may show here, if the policy wants that.
    fn find_zeros(
        &self,
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<Option<ZeroLeaf>, Fallback> {
        let (space, vm) = (self.space, self.space.vm);
        let is_wanted = self.orders(Source::Anonymous, self.vma, access).contains(Order::HUGE);
        let Some(kind) = kind_of::<M::Format>(vm.zero_page).filter(|_| is_wanted) else { return Ok(None) };
        if let Some(zero) = space.entries.table.huge_zero(kind) {
            return Ok(Some(zero));
        }
        match space.entries.table.take_huge_zero(kind, None) {
            Ok((zero, _)) => Ok(Some(zero)),
            Err(NoHugeZero) => prepared.want(Want::HugeZero).map(|_lacking| None),
        }
    }

    /// Links an empty table where the walk found none (P4: an installation, under the parent's lock).
    fn link_table(
        &self,
        source: Source<'_, M>,
        entry: &EntryRef<'_, 's, M>,
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        prepared.allocate_table()?;
        let ask = Questions { takes_memory: false, of_object: false };
        let confirmed = self.lock_and_confirm(entry, Order::BASE, (source, ask), access, prepared);
        let mut confirmed = match confirmed {
            // Another CPU has linked one: the walk finds it.
            Err(Fallback::EntryBusy) => return Ok(()),
            confirmed => confirmed?,
        };
        if let Some(table) = prepared.take_table()
            && confirmed.table.link(confirmed.slot, table).is_ok()
        {
            self.space.vm.count(Counter::TableAlloc);
        }
        Ok(())
    }
}

impl<'v, M: Machine> Confirmed<'_, 'v, M> {
    /// The edit that was planned. No read section is open.
    ///
    /// # Errors
    /// The next attempt goes on from there.
    fn edit(mut self, edit: Edit, goal: Goal, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        let (space, slot, page) = (self.space, self.slot, self.page);
        match edit {
            Edit::Base(decision) => self.apply(decision, prepared),
            Edit::Zero(zero) => {
                self.table.install(slot, zero, LeafBits::new(self.rights).used(false));
                space.vm.count(Counter::ZeroPageMapped);
                Ok(())
            }
            Edit::Folio(order) => self.map_folio(order, prepared),
            Edit::Allow(rights) => {
                self.allow(rights);
                Ok(())
            }
            Edit::Own(rights, class) => match (self.own(rights), class.at_shared_store()) {
                (Ok(()), _) => Ok(()),
                (Err(_), AtSharedStore::Copy) => self.copy_hugetlb(prepared),
                // A base page is copied next.
                (Err(_), _) if prepared.has_table() => {
                    Split::new(&space.entries).prepared(&mut self.table, slot, page, prepared.take_table());
                    Err(Fallback::HugeShared)
                }
                (Err(_), _) => Err(Fallback::HugeShared),
            },
            Edit::ReplaceZeros => {
                let order = Order::HUGE;
                let key = space.node.anon_key(pages_of(order, page).start);
                let folio = prepared.take_mapped(key).ok_or(Fallback::EntryBusy)?;
                self.replace(order, |_| folio);
                space.vm.counters.count_each([
                    Counter::ThpFaultAlloc,
                    Counter::NrAnonTransparentHugepages,
                    Counter::ZeroPageReplaced,
                ]);
                Ok(())
            }
            Edit::Split => {
                Split::new(&space.entries).prepared(&mut self.table, slot, page, prepared.take_table());
                if goal == Goal::Pin { Ok(()) } else { Err(Fallback::EntryBusy) }
            }
        }
    }

    /// Maps the copy of the hugetlb folio that is prepared; or has one made.
    fn copy_hugetlb(mut self, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        let Some(leaf) = self.table.shared_hugetlb_leaf(self.slot) else { return Err(Fallback::EntryBusy) };
        let size = self.table.level().leaf_size().ok_or(Fallback::VmaNotSupported)?;
        let Some(copy) = prepared.take_copy_of(leaf.pfn) else {
            let (space, page) = (self.space, self.page);
            drop(self);
            // To be copied it needs one reference more, for which nothing waits.
            if space.vm.memory.has_most_references(leaf.pfn) {
                return Err(Fallback::NoMemory);
            }
            let wanted = prepared.want(Want::HugetlbCopy(size, page));
            return Err(wanted.map_or_else(|why| why, |_lacking| Fallback::HugetlbEmpty));
        };
        let (folio, from) = copy.into_parts();
        let key = self.space.node.anon_key(pages_of(size.order(), self.page).start);
        self.replace(size.order(), |_| folio.into_mapped_at(key));
        let space = self.space;
        drop(self);
        // The old mapping is back: the copy is not under way any more.
        drop(from);
        space.vm.count(Counter::CowCopied);
        Ok(())
    }
}
