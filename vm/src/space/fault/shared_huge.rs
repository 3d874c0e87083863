//! Faults and huge pages of shared memory: the object has the folio, and a fault in any space maps it.
//!
//! ```text
//!   walk ends at an absent entry that could be a huge leaf
//!     mapping, advice, place in the object ─► a base page: link a table
//!        │ a huge page
//!        ├─ the object has base pages there: a base page
//!        ├─ it has a folio, which is whole or was split ───────┐
//!        └─ it has nothing there, and the policy says so:      │
//!             no block (thp_file_fallback): a base page        │
//!             none prepared: HugeUnprepared ─► allocate, zero  ▼
//!             prepared: fill the object ───────────────────► lock ─► the questions; its still? ─► install
//! ```
//!
//! A base page of a folio that is whole has the object split it first: each frame gets a record. Huge leaves
//! that map it stay (docs/design/shared-huge-pages.md).

use super::Fallback;
use super::attempt::{FaultContext, Proof};
use super::huge::HugeUse;
use super::prepare::Prepared;
use crate::machine::{Entry, Machine};
use crate::space::counters::Counter;
use crate::table::{EntryRef, LeafBits, LockedTable};
use crate::units::{Access, Level, Order};
use crate::vma::{BackingId, SharedHugeUse, Vma, pages_of, shared_huge_use_of_fault};

impl<'s, 'v, M: Machine, P: Proof<M>> FaultContext<'_, 's, 'v, M, P> {
    /// Installs a huge page of the object where `entry`, which lies above the last level, is absent and could
    /// be a huge leaf. `false` for a base page.
    ///
    /// # Errors
    /// Why it gave up; [`Fallback::HugeUnprepared`] where a block is to be prepared before the next attempt.
    #[cold]
    #[inline(never)]
    pub(super) fn install_shared_huge(
        self,
        entry: &EntryRef<'_, 's, M>,
        (access, huge): (Access, HugeUse),
        prepared: &mut Prepared<'v, M>,
    ) -> Result<bool, Fallback> {
        let Self { space, vma, page, reading, .. } = self;
        let is_object = |backing: BackingId| backing.as_given().is_none() && backing.as_pool().is_none();
        let is_huge_slot = entry.table.level() == Level::Pmd && entry.entry() == Entry::Absent;
        let may = self.use_of_shared_huge(vma);
        let is_wanted = is_huge_slot && huge == HugeUse::Whole && may != SharedHugeUse::None;
        if !is_wanted || !vma.backing().is_some_and(is_object) {
            return Ok(false);
        }
        let first = pages_of(Order::HUGE, page).start;
        if !prepared.find_shared_folio(vma, (first, may), reading)? {
            return Ok(false);
        }
        let (mut table, vma) = self.lock_shared_huge(entry)?;
        // P12: it may have left the object since the lookup.
        if !prepared.is_backing_current(vma, first, reading) {
            return Err(Fallback::VmaChanged);
        }
        // Refused: the object has split it since the lookup.
        let folio = prepared.take_backing_folio().ok_or(Fallback::EntryBusy)?;
        let bits = LeafBits::new(vma.rights()).used(access == Access::Write);
        table.install_huge(entry.slot, folio, bits);
        space.vm.counters.count_each([Counter::ThpFileMapped, Counter::NrShmemPmdMapped]);
        Ok(true)
    }

    /// Locks the table of the entry, and asks the questions of an installation. Returns the mapping that is
    /// valid now, which has the whole huge page too.
    fn lock_shared_huge(
        &self,
        entry: &EntryRef<'_, 's, M>,
    ) -> Result<(LockedTable<'s, M>, &Vma<M::Cpu>), Fallback> {
        let table = entry.table.lock().ok_or(Fallback::PmdChanged)?;
        if table.read(entry.slot) != entry.word {
            return Err(Fallback::EntryBusy);
        }
        let vma = self.confirm()?;
        // It may be another one than the fault began with, which says the same of the one page.
        let is_same = core::ptr::eq(vma, self.vma) || mutant!("shared-thp.region-not-rechecked");
        if !is_same && self.use_of_shared_huge(vma) == SharedHugeUse::None {
            return Err(Fallback::VmaChanged);
        }
        Ok((table, vma))
    }

    fn use_of_shared_huge(&self, vma: &Vma<M::Cpu>) -> SharedHugeUse {
        shared_huge_use_of_fault(self.space.vm.shared_huge, self.space.huge_refusal(), vma, self.page)
    }
}
