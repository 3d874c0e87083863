//! Faults of mappings of the reserved pool: each ends at the entry of a huge page.
//!
//! ```text
//!   Reserved ─► a page that was set aside ─┐  prepared outside of the read section, as a huge page is:
//!   absent ───► one that is available ─────┤  taken from the pool, zeroed
//!     none: PoolEmpty, a bus error         └─► lock the table ─► the questions ─► install
//!   leaf ─────► the mapping's rights are given back, in place
//!   Lost ─────► PoolEmpty
//! ```
//!
//! A load installs a page, too: there is no zero page of the pool, as in Linux. A leaf whose folio is
//! *exclusive* is written in place. One that a fork has shared is not:
//!
//! ```text
//!   store ─► lock the table ─► nobody else has it: exclusive again, in place
//!              │ others have it
//!              ▼
//!            a page that is available ─► lock, a reference, unlock ─► copy, with no lock
//!              │ none: PoolEmpty                 └─► lock ─► the questions; the page that was copied still?
//!              ▼                                       └─► busy ─► flush ─► the copy ─► the old mapping back
//!            its owner may take it back (`AddressSpace::take_back_pool_page`)
//! ```
//!
//! Of shared memory the object has the folio, and a fault in any space maps that:
//!
//! ```text
//!   absent ─► has the object one for the page? ── no ─► one that was set aside for it, or is available
//!               │ yes                                     │ none: PoolEmpty
//!               ▼                                         ▼
//!             lock the table ─► the questions; its still? ◄── filled, under the object's lock: the first one
//!               └─► install
//! ```

use super::Fallback::{self, VmaChanged};
use super::attempt::{FaultContext, Proof};
use super::huge::HugeUse;
use super::install::{Decision, Install};
use super::prepare::Prepared;
use crate::frame::{FrameRef, NotTaken, PoolTake};
use crate::machine::{Cpu, Entry, Machine, Marker};
use crate::space::{AddressSpace, Counter};
use crate::sync::PreemptGuard;
use crate::table::{EntryRef, LeafBits, LockedTable, Reuse, walk};
use crate::units::{Access, Level, PageSize, Vpn};
use crate::vma::pages_of;

/// What is left of an attempt at an entry of the pool once the read section has ended.
pub(super) enum PoolStep<'s, M: Machine> {
    /// Nothing: the entry allows the access.
    Done,
    /// The copy that is prepared takes the leaf's place, with these bits.
    Copy(LockedTable<'s, M>, LeafBits),
}

impl<'s, 'v, M: Machine, P: Proof<M>> FaultContext<'_, 's, 'v, M, P> {
    /// The rest of an attempt whose walk has ended at the entry of a page of the reserved pool, of `size`.
    #[cold]
    #[inline(never)]
    pub(super) fn at_pool(
        self,
        entry: &EntryRef<'_, 's, M>,
        size: PageSize,
        (access, huge): (Access, HugeUse),
        prepared: &mut Prepared<'v, M>,
    ) -> Result<PoolStep<'s, M>, Fallback> {
        // What is going to be pinned is to be this space's alone, also to be read.
        let is_pinned = huge == HugeUse::Split;
        let owns = !self.vma.is_shared_pool() && (access == Access::Write || is_pinned);
        match entry.entry() {
            Entry::Leaf(leaf) if leaf.rights.contains(access.needs()) && !(owns && is_pinned) => {
                self.space.forget_refusal(self.page, self.reading);
                return Ok(PoolStep::Done);
            }
            Entry::Leaf(_) if owns => return self.own_pool(entry, size, access, prepared),
            Entry::Leaf(_) => {
                let table = self.lock_pool(entry)?;
                self.allow_pool(table, entry.slot, access, prepared)
            }
            Entry::Absent if self.vma.is_shared_pool() => {
                self.install_shared_pool(entry, size, access, prepared)
            }
            Entry::Marker(Marker::Reserved) => {
                self.install_pool(entry, (size, PoolTake::Reserved), access, prepared)
            }
            Entry::Absent => self.install_pool(entry, (size, PoolTake::Available), access, prepared),
            Entry::Marker(Marker::Lost) => Err(Fallback::PoolEmpty),
            Entry::Marker(Marker::Busy) => Err(Fallback::EntryBusy),
            Entry::Marker(Marker::PendingFree(_)) => Err(Fallback::EntryPending),
            // Tables below the entries of such a mapping are freed before it is published.
            Entry::Table(_) | Entry::Marker(Marker::Unknown) => Err(Fallback::VmaNotSupported),
        }?;
        Ok(PoolStep::Done)
    }

    /// Makes a private page this space's alone, in place or by a copy, and gives the leaf the rights of its
    /// mapping.
    fn own_pool(
        self,
        entry: &EntryRef<'_, 's, M>,
        size: PageSize,
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<PoolStep<'s, M>, Fallback> {
        let mut table = self.lock_pool(entry)?;
        // A fork has taken the right to write: until it has flushed and copied what it has to.
        if self.space.fork.is_behind(self.page) && !mutant!("pool.fork-ignored") {
            return Err(Fallback::Forking);
        }
        match table.reuse_pool_leaf(entry.slot) {
            Some(Reuse::WasExclusive) => {}
            Some(Reuse::BecameExclusive) => self.space.vm.count(Counter::PgReuse),
            None => {
                let Some(leaf) = table.shared_pool_leaf(entry.slot) else { return Err(Fallback::EntryBusy) };
                if prepared.has_pool_copy_of(leaf.pfn) {
                    let bits = LeafBits::new(self.vma.rights()).used(access == Access::Write);
                    return Ok(PoolStep::Copy(table, bits));
                }
                drop(table);
                // To be copied it needs one more, for which nothing waits.
                if self.space.vm.memory.has_most_references(leaf.pfn) {
                    return Err(Fallback::NoMemory);
                }
                return Err(prepared.lack_of_pool_copy(self.vma, self.page, size));
            }
        }
        self.allow_pool(table, entry.slot, access, prepared)?;
        Ok(PoolStep::Done)
    }

    /// Gives the leaf the rights of its mapping.
    fn allow_pool(
        self,
        table: LockedTable<'s, M>,
        slot: usize,
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let Self { space, page, .. } = self;
        let rights = self.vma.rights();
        Install { space, table, slot, page, access, rights }.apply(Decision::Allow(rights), prepared)?;
        space.forget_refusal(page, self.reading);
        Ok(())
    }

    fn install_pool(
        self,
        entry: &EntryRef<'_, 's, M>,
        (size, take): (PageSize, PoolTake),
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let Self { space, vma, page, .. } = self;
        prepared.set_placement(vma, page);
        if !prepared.has_pool_page(size, take)? {
            return Err(Fallback::PoolEmpty);
        }
        let mut table = self.lock_pool(entry)?;
        let first = pages_of(size.order(), page).start;
        if space.fork.is_behind(first) {
            return Err(Fallback::Forking);
        }
        if let Some(folio) = prepared.take_pool_page() {
            let bits = LeafBits::new(vma.rights()).used(access == Access::Write);
            table.install_from_pool(entry.slot, folio, space.node.birth(first), bits);
        }
        Ok(())
    }

    /// Maps the folio that the object has for the page, or gets.
    fn install_shared_pool(
        self,
        entry: &EntryRef<'_, 's, M>,
        size: PageSize,
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let first = pages_of(size.order(), self.page).start;
        prepared.find_pool_backing(self.vma, first, self.reading)?;
        // P12: it may have left the object since the lookup.
        let is_current = || prepared.is_backing_current(self.vma, first, self.reading);
        let locked = self.lock_pool(entry).and_then(|table| is_current().then_some(table).ok_or(VmaChanged));
        // The reference ends with the read section: an object that ends may have the pool's only page.
        let mut table = locked.inspect_err(|_| prepared.forget_backing())?;
        if let Some(folio) = prepared.take_backing_folio() {
            let bits = LeafBits::new(self.vma.rights()).used(access == Access::Write);
            table.install_huge(entry.slot, folio, bits);
        }
        Ok(())
    }

    /// Locks the table of the entry, and asks the questions of an installation. A mapping that says the same
    /// of the page has it whole: none is cut within a page.
    fn lock_pool(&self, entry: &EntryRef<'_, 's, M>) -> Result<LockedTable<'s, M>, Fallback> {
        let table = entry.table.lock().ok_or(Fallback::PmdChanged)?;
        if table.read(entry.slot) != entry.word && !mutant!("pool.entry-not-rechecked") {
            return Err(Fallback::EntryBusy);
        }
        self.confirm()?;
        Ok(table)
    }
}

impl<'v, M: Machine> AddressSpace<'v, M> {
    /// Takes what the last attempt lacked from the reserved pool, and zeroes it. Called with no lock held and
    /// outside of any read section. False where it lacked nothing of the pool.
    pub(super) fn prepare_pool_page(&self, prepared: &mut Prepared<'v, M>) -> bool {
        if let Some((size, page)) = prepared.wants_pool_copy() {
            self.prepare_pool_copy(size, page, prepared);
            return true;
        }
        let Some((size, take)) = prepared.wants_pool_page() else { return false };
        let vm = self.vm;
        let try_take = || vm.memory.take_from_pool(size, prepared.placement(), take);
        let taken = match try_take() {
            // Walkers without a lock have their references in read sections.
            Err(NotTaken::Astray) => {
                vm.settle();
                try_take()
            }
            taken => taken,
        };
        match taken {
            Ok(mut folio) => {
                folio.zero(vm.workers);
                prepared.note_pool_page(Ok(folio));
            }
            // The next attempt finds another entry, or wants a page again.
            Err(NotTaken::Kept | NotTaken::Away) => M::Cpu::relax(),
            Err(NotTaken::Empty | NotTaken::Astray) => prepared.note_pool_page(Err(take)),
        }
        true
    }

    /// Copies a page that others have too to one that is taken from the reserved pool.
    fn prepare_pool_copy(&self, size: PageSize, page: Vpn, prepared: &mut Prepared<'v, M>) {
        let vm = self.vm;
        match vm.memory.take_for_copy(size, prepared.placement()) {
            Ok(unfilled) => match self.shared_pool_page(page) {
                Some(source) => prepared.note_pool_copy(unfilled.fill(source, vm.workers)),
                // The next attempt finds another entry.
                None => drop(unfilled),
            },
            Err(NotTaken::Kept | NotTaken::Away) => M::Cpu::relax(),
            Err(NotTaken::Empty | NotTaken::Astray) => {
                prepared.note_pool_page(Err(PoolTake::Available));
            }
        }
    }

    /// A reference to the private page of the pool that `page` lies in, where it is shared with other spaces.
    /// It is not written as long as there is the reference; nor through translations of a fork that has not
    /// flushed: no such fork is under way.
    pub(in crate::space) fn shared_pool_page(&self, page: Vpn) -> Option<FrameRef<'v, M>> {
        let reading = self.vm.rcu.read();
        let found = walk(&self.table, page, Level::Pte, &reading);
        let table = found.table.lock()?;
        if self.fork.is_behind(page) && !mutant!("pool.copied-before-flush") {
            return None;
        }
        let leaf = table.shared_pool_leaf(found.slot)?;
        self.vm.memory.try_get(leaf.pfn)
    }

    /// Does what [`at_pool`](FaultContext::at_pool) has left, in `slot`, whose leaf holds `page`. No read
    /// section is open: a copy is installed with a flush.
    ///
    /// # Errors
    /// [`Fallback::EntryBusy`].
    #[cold]
    #[inline(never)]
    pub(super) fn finish_at_pool(
        &self,
        step: PoolStep<'_, M>,
        (slot, page): (usize, Vpn),
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let PoolStep::Copy(mut table, bits) = step else { return Ok(()) };
        let (folio, from) = prepared.take_pool_copy().ok_or(Fallback::EntryBusy)?.into_parts();
        let pages = pages_of(folio.size().order(), page);
        let birth = self.node.birth(pages.start);
        let is_replaced = table.replace_by_copy(slot, folio, (birth, bits), |table| {
            if !mutant!("pool.copy-flush-skipped") {
                // A TLB forgets the leaf whole, whichever of its pages is named.
                self.flush_page(table, pages.start);
            }
        });
        debug_assert!(is_replaced, "the leaf was seen under this lock");
        drop(table);
        // The old mapping is back: the copy is not under way any more.
        drop(from);
        self.vm.count(Counter::CowCopied);
        self.forget_refusal(page, &PreemptGuard::new());
        Ok(())
    }
}
