//! Memory that waits for readers: retired tables and pool objects, freed after a grace period.

use super::{BoundSlabPool, Init, Memory};
use crate::machine::Machine;
use crate::sync::{Rcu, RcuHead, Reclaim, UniqueId};
use crate::units::{PAGE_SIZE, Pfn};
use core::ptr::NonNull;

/// The tags of a retired table, by the contents of its words; a pool's tag is its address, which is neither.
const TABLE: usize = 0;
const ZEROED_TABLE: usize = 1;

impl<M: Machine> Memory<'_, M> {
    /// Frees a detached table that only the caller owns once no lockless walker can hold it. May wait for
    /// readers. `init` is the contents of its words, which do not change any more.
    pub(super) fn retire_table(&self, rcu: &Rcu<M::Cpu>, pfn: Pfn, init: Init) {
        let tag = match init {
            Init::Dirty => TABLE,
            Init::Zeroed => ZEROED_TABLE,
        };
        match self.meta(pfn) {
            // SAFETY: the table is detached and was not retired before, as the transition says; its link is
            // unused till it is reclaimed, and records are never freed. The wait is for walkers that may
            // still hold the table: the parent's entry was cleared before. Had it not been, a walker would
            // find a frame that it may read, and no Rust object: tables are cells reached through the door.
            Some(meta) if meta.retire() => unsafe {
                rcu.retire(self.machine, meta.retire_head(), tag, PAGE_SIZE, self);
            },
            _ => self.refuse(pfn),
        }
    }

    /// Frees a slab that has no allocated object.
    pub(super) fn free_slab(&self, pfn: Pfn) {
        if self.meta_of(pfn).relinquish() {
            self.free_frame(pfn, Init::Dirty);
        }
    }
}

// SAFETY: (1) a memory keeps its id, and no other has it. (2) Tables are records of its frames and pool
// objects lie in its frames, which are valid as long as the machine, which the memory borrows.
unsafe impl<M: Machine> Reclaim for Memory<'_, M> {
    fn id(&self) -> UniqueId {
        self.id()
    }

    unsafe fn reclaim(&self, tag: usize, object: NonNull<RcuHead>) {
        if let TABLE | ZEROED_TABLE = tag {
            let pfn = self.table.pfn_at(object.addr());
            #[cfg(loom)]
            crate::sync::forget(object.addr().get()..object.addr().get() + size_of::<RcuHead>());
            if self.meta_of(pfn).unretire() {
                self.free_table(pfn, if tag == TABLE { Init::Dirty } else { Init::Zeroed });
            }
            return;
        }
        // SAFETY: the object was retired for this memory, and is not used any more; all tags but those of
        // tables are those of pools.
        unsafe { BoundSlabPool::reclaim(self, tag, object) };
    }
}
