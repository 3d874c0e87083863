//! What was just cut out of a page table: still in some CPU's TLB perhaps, so not yet free.

use super::alloc::shelve;
use super::{FrameState, Init, Kind, Memory};
use crate::machine::Machine;
use crate::sync::Rcu;
use crate::units::{Pfn, VpnRange};

/// A translation that was cleared, with what it led to. It can only be put into a gather, which flushes and
/// then frees.
#[derive(Debug)]
#[must_use = "what was unhooked must be flushed and freed"]
pub struct Unhooked {
    pages: VpnRange,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Nothing that is owned: the zero page.
    Translation,
    /// One mapping of a frame.
    Frame(Pfn),
    /// A table page, cut out.
    Table(Pfn),
}

impl Unhooked {
    /// A leaf that led to memory of nobody's.
    pub fn translation(pages: VpnRange) -> Self {
        Self { pages, what: What::Translation }
    }

    /// A leaf that led to user memory.
    pub fn frame(pages: VpnRange, pfn: Pfn) -> Self {
        Self { pages, what: What::Frame(pfn) }
    }

    /// An entry that led to a table, and the pages that the table covered.
    pub fn table(pages: VpnRange, pfn: Pfn) -> Self {
        Self { pages, what: What::Table(pfn) }
    }

    /// The pages whose translation is gone.
    pub fn pages(&self) -> VpnRange {
        self.pages
    }
}

/// Unhooked things that wait for one flush, without allocating: exclusive frames and tables are linked
/// through their records, frames that others hold too are kept one by one.
#[derive(Debug, Default)]
pub struct GatherBatch {
    frames: Option<Pfn>,
    tables: Option<Pfn>,
    /// `None` until there is one.
    shared: Option<[Pfn; Self::SHARED]>,
    nr_shared: usize,
}

impl GatherBatch {
    /// Frames that others hold too, at most.
    const SHARED: usize = 32;
    /// Frames that go to the CPU's cache at once.
    const LOT: usize = 32;

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_none() && self.tables.is_none() && self.nr_shared == 0
    }

    /// Whether one more shared frame would not fit: flush first.
    pub fn is_full(&self) -> bool {
        self.nr_shared == Self::SHARED
    }

    /// Takes one thing in. It is not full.
    pub fn take_in<M: Machine>(&mut self, memory: &Memory<'_, M>, unhooked: Unhooked) {
        match unhooked.what {
            What::Translation => {}
            What::Frame(pfn) => self.take_in_frame(memory, pfn),
            What::Table(pfn) => {
                memory.meta_of(pfn).set_next(self.tables);
                self.tables = Some(pfn);
            }
        }
    }

    fn take_in_frame<M: Machine>(&mut self, memory: &Memory<'_, M>, pfn: Pfn) {
        let meta = memory.meta_of(pfn);
        if meta.state().is_exclusive() {
            // Nobody else maps it, so nobody needs its owner words.
            meta.set_next(self.frames);
            self.frames = Some(pfn);
        } else if let Some(slot) = self.shared.get_or_insert_default().get_mut(self.nr_shared) {
            *slot = pfn;
            self.nr_shared += 1;
        }
    }

    /// Frees everything. No CPU uses a translation to any of it any more; tables wait for the readers too.
    pub fn release<M: Machine>(&mut self, memory: &Memory<'_, M>, rcu: &Rcu<M::Cpu>) {
        self.release_frames(memory);
        let shared = self.shared.iter().flatten().take(self.nr_shared);
        shared.for_each(|&pfn| memory.put_mapping(pfn));
        self.nr_shared = 0;
        let mut next = self.tables.take();
        while let Some(pfn) = next {
            next = memory.meta_of(pfn).links().next;
            // All its entries were cleared before it was cut out.
            memory.retire_table(rcu, pfn, Init::Zeroed);
        }
    }

    /// Exclusive frames, in lots: what was unhooked first ends up warmest, so pages touched again in order
    /// get their frames in order. Each costs one read-modify-write, because a lockless walker with an old
    /// entry may be counting itself in.
    fn release_frames<M: Machine>(&mut self, memory: &Memory<'_, M>) {
        let mut next = self.frames.take();
        let (mut lot, mut len) = ([0; Self::LOT], 0);
        while let Some(pfn) = next {
            let meta = memory.meta_of(pfn);
            next = meta.links().next;
            meta.remove_only_mapping();
            match meta.put() {
                Some(FrameState::TAKEN_FRAME) => {
                    lot[len] = shelve(meta, pfn, Init::Dirty);
                    len += 1;
                }
                Some(left) if left.kind() == Kind::Taken => memory.free_block(pfn, left.order()),
                Some(_) => (),
                None => memory.refuse(pfn),
            }
            if len == Self::LOT {
                memory.stock_words(&lot);
                len = 0;
            }
        }
        memory.stock_words(&lot[..len]);
    }
}

impl<M: Machine> Memory<'_, M> {
    /// One mapping of user memory less; the last holder's frees it.
    fn put_mapping(&self, pfn: Pfn) {
        self.meta_of(pfn).remove_mapping();
        self.put(pfn);
    }
}
