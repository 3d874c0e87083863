//! The write of a fault: under the table's lock, when all questions were answered.

use super::Fallback;
use super::confirm::Confirmed;
use super::decide::Decision;
use super::prepared::Prepared;
use crate::frame::{Base, FolioSize, Mapped};
use crate::machine::{FlushRange, Leaf, Machine};
use crate::space::counters::Counter;
use crate::table::{LeafBits, LockedTable, OldLeaf, Reuse, ZeroLeaf};
use crate::units::{Access, Order, Rights};
use crate::vma::pages_of;

impl<'v, M: Machine> Confirmed<'_, 'v, M> {
    /// Applies the decision about a base page. The frames it needs are in `prepared`.
    ///
    /// # Errors
    /// A frame has to be copied, and none is prepared for that; the next attempt prepares one.
    #[inline(always)]
    pub fn apply(mut self, decision: Decision, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        match decision {
            Decision::MapFrame => {
                if let Some(frame) = prepared.take_frame(self.space.node.anon_key(self.page)) {
                    self.table.install(self.slot, frame, self.bits(self.rights));
                }
            }
            Decision::MapZeroPage => {
                self.table.install(self.slot, ZeroLeaf::BASE, self.bits(self.rights));
            }
            rarer => return self.apply_rarer(rarer, prepared),
        }
        Ok(())
    }

    /// The rarer decisions. By value, so that `self` lies in memory only here.
    #[inline(never)]
    fn apply_rarer(mut self, decision: Decision, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        let key = self.space.node.anon_key(self.page);
        match decision {
            Decision::MapSource(rights) => {
                let frame = prepared.take_base(key).ok_or(Fallback::NoMemory)?;
                self.table.install(self.slot, frame, self.bits(rights));
            }
            Decision::CopySource => {
                let (mut copy, from) = prepared.take_copy_of_object().ok_or(Fallback::EntryBusy)?;
                // Stores of others meanwhile are in the copy or not, as in any mapping of the object.
                copy.copy_from(from.user_frame());
                self.table.install(self.slot, copy.into_mapped_at(key), self.bits(self.rights));
                self.space.vm.count(Counter::CowCopied);
            }
            Decision::ReplaceZeroPage => {
                if let Some(frame) = prepared.take_frame(key) {
                    self.replace(Base, |_| frame);
                    self.space.vm.count(Counter::ZeroPageReplaced);
                }
            }
            Decision::Allow(rights) => self.allow(rights),
            Decision::AllowWrite(rights) => return self.allow_write(rights, prepared),
            _ => {}
        }
        Ok(())
    }

    /// Maps a folio of this order around the page, where nothing is mapped: by one leaf, or by leaves of base
    /// pages.
    ///
    /// # Errors
    /// It is to be found again.
    pub(super) fn map_folio(mut self, order: Order, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        let Self { space, slot, page, .. } = self;
        let key = space.node.anon_key(pages_of(order, page).start);
        if order.frames() > self.table.level().entry_pages() {
            // In all of them, as Linux does: no walker has to write a leaf.
            let bits = LeafBits::new(self.rights).used(true);
            let first = LockedTable::<M>::first_slot_of(slot, order);
            let parts = prepared.take_parts(key).ok_or(Fallback::EntryBusy)?;
            self.table.install_parts(first, parts, bits);
            Counter::anon_fault_alloc(order).into_iter().for_each(|counter| space.vm.count(counter));
            return Ok(());
        }
        let counted = prepared.counted();
        let folio = prepared.take_mapped(key).ok_or(Fallback::EntryBusy)?;
        self.table.use_reserved(slot);
        self.table.install(slot, folio, self.bits(self.rights));
        counted.into_iter().for_each(|counters| space.vm.counters.count_each(counters));
        Ok(())
    }

    /// Decides whether a write takes a copy: only the holder of the table's lock makes the folio of an entry
    /// exclusive, or shares it by another entry. Of any size.
    ///
    /// # Errors
    /// [`Fallback::CowUnprepared`]: a copy is to be prepared; of a huge page, the leaf is to be split.
    #[inline(always)]
    pub(super) fn own(&mut self, rights: Rights) -> Result<(), Fallback> {
        if self.access != Access::Write {
            return self.own_to_read(rights);
        }
        let reuse = self.table.allow_store(self.slot, rights).ok_or(Fallback::CowUnprepared)?;
        if reuse == Reuse::BecameExclusive {
            self.space.vm.count(Counter::PgReuse);
        }
        Ok(())
    }

    /// As [`own`](Self::own), for a pin to read.
    #[cold]
    #[inline(never)]
    fn own_to_read(&mut self, rights: Rights) -> Result<(), Fallback> {
        if !self.table.is_exclusive(self.slot) {
            if !self.table.try_make_exclusive(self.slot) {
                return Err(Fallback::CowUnprepared);
            }
            self.space.vm.count(Counter::PgReuse);
        }
        self.allow(rights);
        Ok(())
    }

    fn allow_write(&mut self, rights: Rights, prepared: &mut Prepared<'v, M>) -> Result<(), Fallback> {
        if self.own(rights).is_ok() {
            return Ok(());
        }
        // What owns nothing has nothing to copy: the frame would be mapped as it came.
        if self.table.owned_leaf(self.slot).is_none() {
            return Err(Fallback::VmaNotSupported);
        }
        let Some(mut copy) = prepared.take_blank() else {
            prepared.want_blank_next();
            return Err(Fallback::CowUnprepared);
        };
        let page = if mutant!("rmap.copy-born-elsewhere") { self.page.add(1) } else { self.page };
        let key = self.space.node.anon_key(page);
        self.replace(Base, |old| {
            old.user_frame().into_iter().for_each(|from| copy.copy_from(from));
            copy.into_mapped_at(key)
        });
        self.space.vm.count(Counter::CowCopied);
        Ok(())
    }

    /// P9: what a present entry maps changes through non-present and a flush, else one CPU would go on
    /// reading the old memory after another has written the new. The flush comes before `make`, which copies:
    /// no CPU writes to the old folio meanwhile, whatever flushes of the space are pending (P8).
    #[inline(always)]
    pub(super) fn replace<S: FolioSize>(
        &mut self,
        size: S,
        make: impl FnOnce(&OldLeaf<'_, M, S>) -> Mapped<'v, M, S>,
    ) {
        let (space, bits) = (self.space, self.bits(self.rights));
        let pages = pages_of(size.order(), self.page);
        let told = if S::IS_BASE { FlushRange::of(pages) } else { self.table.flush_of(self.slot, pages) };
        let told = told.tells_named_if(mutant!("cow.flush-tells-one-page"));
        let flush = |table: &LockedTable<'_, M>| {
            if !mutant!("cow.flush-skipped") {
                space.entries.flush_entry(table, told);
            }
        };
        self.table.replace_leaf((self.slot, size), flush, |old| (make(old), bits));
    }

    /// The bits of the leaf. The access is tried again at once: its bits are set now, which spares the
    /// hardware's walker a locked write.
    #[inline(always)]
    pub(super) fn bits(&self, rights: Rights) -> LeafBits {
        LeafBits::new(rights).used(self.access == Access::Write)
    }

    /// Gives the leaf more rights, with the same folio.
    pub(super) fn allow(&mut self, mut rights: Rights) {
        let store = self.access == Access::Write;
        if !store && self.space.entries.fork.is_behind(self.page) && !mutant!("fork.pinned-writable-again") {
            rights -= Rights::WRITE;
        }
        let kept = |leaf: Leaf| leaf.dirty && !mutant!("fault.dirty-dropped");
        let now = |leaf| LeafBits { rights, ..LeafBits::of(leaf).used(kept(leaf) || store) };
        self.table.adjust_unbounded(self.slot, |leaf| Some(now(leaf)));
    }
}
