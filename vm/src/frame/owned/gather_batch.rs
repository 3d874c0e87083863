//! The batch of frames and tables that wait for one flush.

use super::Unhooked;
use super::unhooked::Cleared;
use crate::frame::free::prepare_free;
use crate::frame::{FrameMeta, FrameState, Init, Kind, Memory};
use crate::machine::{Cpu, Machine};
use crate::sync::Rcu;
use crate::units::Pfn;

/// Unhooked frames and tables that wait for one flush. Nothing is allocated for them: exclusive frames and
/// tables are linked through their records, shared frames are kept one by one. (Linux: `mmu_gather`'s batch.)
#[derive(Debug, Default)]
pub(crate) struct GatherBatch {
    frames: Option<Pfn>,
    tables: Option<Pfn>,
    /// `None` until there is one.
    shared: Option<[Pfn; Self::MAX_SHARED]>,
    nr_shared: usize,
}

impl GatherBatch {
    /// The most shared frames that one flush covers.
    const MAX_SHARED: usize = 32;
    /// Exclusive frames that are freed to the CPU's cache at once.
    const FREE_BATCH: usize = 32;

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.frames.is_none() && self.tables.is_none() && self.nr_shared == 0
    }

    /// Whether one more shared frame would not fit: flush first.
    pub fn is_full(&self) -> bool {
        self.nr_shared == Self::MAX_SHARED
    }

    /// Adds an unhooked translation. The batch is not full.
    #[inline(always)]
    pub fn add<M: Machine>(&mut self, memory: &Memory<'_, M>, unhooked: Unhooked) {
        match unhooked.cleared() {
            Cleared::Translation => {}
            Cleared::Frame(pfn, dirty) => {
                let meta = memory.meta_of(pfn);
                if meta.state().is_exclusive() {
                    // No other entry maps it, so its owner words are not needed any more.
                    meta.set_next(self.frames);
                    self.frames = Some(pfn);
                } else {
                    self.add_shared(meta, pfn, dirty);
                }
            }
            Cleared::Table(pfn, init) => self.add_table(memory.meta_of(pfn), pfn, init),
        }
    }

    /// Adds a mapping of a frame that may outlive its entry.
    #[inline(never)]
    fn add_shared<C: Cpu>(&mut self, meta: &FrameMeta<C>, pfn: Pfn, dirty: bool) {
        if dirty {
            meta.note_dirty();
        }
        if let Some(slot) = self.shared.get_or_insert_default().get_mut(self.nr_shared) {
            *slot = pfn;
            self.nr_shared += 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn add_table<C: Cpu>(&mut self, meta: &FrameMeta<C>, pfn: Pfn, init: Init) {
        meta.set_next(self.tables);
        // A table that is not zero names itself.
        meta.set_prev((init == Init::Dirty).then_some(pfn));
        self.tables = Some(pfn);
    }

    /// Calls `flush`, which makes every CPU forget the translations that were added, and then frees all
    /// frames and tables; tables wait for the readers too. Nothing else frees what was added.
    #[inline]
    pub fn free_after<M: Machine>(
        &mut self,
        memory: &Memory<'_, M>,
        rcu: &Rcu<M::Cpu>,
        flush: impl FnOnce(),
    ) {
        if mutant!("gather.freed-before-flush") {
            self.free(memory, rcu);
        }
        flush();
        self.free(memory, rcu);
    }

    fn free<M: Machine>(&mut self, memory: &Memory<'_, M>, rcu: &Rcu<M::Cpu>) {
        self.free_exclusive(memory);
        let shared = self.shared.iter().flatten().take(self.nr_shared);
        shared.for_each(|&pfn| memory.put_mapping(pfn));
        self.nr_shared = 0;
        let mut next = self.tables.take();
        while let Some(pfn) = next {
            let links = memory.meta_of(pfn).links();
            next = links.next;
            let init = if links.prev.is_some() { Init::Dirty } else { Init::Zeroed };
            memory.retire_table(rcu, pfn, init);
        }
    }

    /// Frees exclusive frames, in batches: the one unhooked first ends up warmest, so pages touched again in
    /// order get their frames in order. Each costs one read-modify-write, because a lockless walker with an
    /// old entry may be raising the count.
    fn free_exclusive<M: Machine>(&mut self, memory: &Memory<'_, M>) {
        let mut next = self.frames.take();
        let (mut batch, mut len) = ([0; Self::FREE_BATCH], 0);
        while let Some(pfn) = next {
            let meta = memory.meta_of(pfn);
            next = meta.links().next;
            meta.remove_only_mapping();
            match meta.put() {
                Some(FrameState::TAKEN_FRAME) => {
                    batch[len] = prepare_free(meta, pfn, Init::Dirty);
                    len += 1;
                }
                Some(left) if left.kind() == Kind::Taken => memory.free_block(pfn, left.order(), Init::Dirty),
                Some(_) => (),
                None => memory.refuse(pfn),
            }
            if len == Self::FREE_BATCH {
                memory.free_batch(&batch);
                len = 0;
            }
        }
        memory.free_batch(&batch[..len]);
    }
}

impl<M: Machine> Memory<'_, M> {
    /// Removes one mapping of user memory, and lowers its refcount. The last reference frees it.
    pub(super) fn put_mapping(&self, pfn: Pfn) {
        self.meta_of(pfn).remove_mapping();
        self.put(pfn);
    }
}
