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
//! The leaf owns its folio, which is *exclusive*: nothing is copied by a write. A load installs a page, too:
//! there is no zero page of the pool, as in Linux.
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

use super::attempt::{FaultContext, Proof};
use super::install::{Decision, Install};
use super::prepare::Prepared;
use super::{Fallback, Fault};
use crate::frame::{NotTaken, PoolTake};
use crate::machine::{Cpu, Entry, Machine, Marker};
use crate::space::AddressSpace;
use crate::table::{EntryRef, LeafBits, LockedTable};
use crate::units::{Access, PageSize};
use crate::vma::pages_of;

impl<'s, 'v, M: Machine, P: Proof<M>> FaultContext<'_, 's, 'v, M, P> {
    /// The rest of an attempt whose walk has ended at the entry of a page of the reserved pool, of `size`.
    #[cold]
    #[inline(never)]
    pub(super) fn at_pool(
        self,
        entry: &EntryRef<'_, 's, M>,
        size: PageSize,
        fault: Fault,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        match entry.entry() {
            Entry::Leaf(leaf) if leaf.rights.contains(fault.access.needs()) => {
                self.space.forget_refusal(self.page, self.reading);
                Ok(())
            }
            Entry::Leaf(_) => self.allow_pool(entry, fault.access, prepared),
            Entry::Absent if self.vma.is_shared_pool() => {
                self.install_shared_pool(entry, size, fault.access, prepared)
            }
            Entry::Marker(Marker::Reserved) => {
                self.install_pool(entry, (size, PoolTake::Reserved), fault.access, prepared)
            }
            Entry::Absent => self.install_pool(entry, (size, PoolTake::Available), fault.access, prepared),
            Entry::Marker(Marker::Lost) => Err(Fallback::PoolEmpty),
            Entry::Marker(Marker::Busy) => Err(Fallback::EntryBusy),
            Entry::Marker(Marker::PendingFree(_)) => Err(Fallback::EntryPending),
            // Tables below the entries of such a mapping are freed before it is published.
            Entry::Table(_) | Entry::Marker(Marker::Unknown) => Err(Fallback::VmaNotSupported),
        }
    }

    /// Gives the leaf the rights of its mapping.
    fn allow_pool(
        self,
        entry: &EntryRef<'_, 's, M>,
        access: Access,
        prepared: &mut Prepared<'v, M>,
    ) -> Result<(), Fallback> {
        let Self { space, page, .. } = self;
        let (table, rights) = (self.lock_pool(entry)?, self.vma.rights());
        // A fork has taken the right to write until it has copied the page.
        let is_copied = access == Access::Write && !self.vma.is_shared_pool();
        if is_copied && space.fork.is_behind(page) && !mutant!("pool.fork-ignored") {
            return Err(Fallback::Forking);
        }
        let slot = entry.slot;
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
        let mut table = self.lock_pool(entry)?;
        // P12: it may have left the object since the lookup.
        if !prepared.is_backing_current(self.vma, first, self.reading) {
            return Err(Fallback::VmaChanged);
        }
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
        let Some((size, take)) = prepared.wants_pool_page() else { return false };
        let vm = self.vm;
        match vm.memory.take_from_pool(size, prepared.placement(), take) {
            Ok(mut folio) => {
                folio.zero(vm.workers);
                prepared.note_pool_page(Ok(folio));
            }
            // The next attempt finds another entry, or wants a page again.
            Err(NotTaken::Kept | NotTaken::Away) => M::Cpu::relax(),
            Err(NotTaken::Empty) => prepared.note_pool_page(Err(take)),
        }
        true
    }
}
