//! The free folios of the pool: a list for each node and size.

use super::HugetlbPool;
use crate::frame::{FrameState, Init};
use crate::machine::{Cpu, Machine};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::units::{PageSize, Pfn};

/// The free folios of one node and size, linked through the records of their heads.
#[derive(Debug)]
pub(in crate::frame) struct HugetlbList<C: Cpu> {
    /// The first one's number, plus one; 0 for none. Relaxed, as the length: guarded by the pool's lock.
    first: AtomicU64<C>,
    len: AtomicU64<C>,
}

impl<C: Cpu> HugetlbList<C> {
    pub const fn new() -> Self {
        Self { first: AtomicU64::new(0), len: AtomicU64::new(0) }
    }

    pub fn first(&self) -> Option<Pfn> {
        self.first.load(Relaxed).checked_sub(1).map(Pfn)
    }

    pub fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    fn set(&self, first: Option<Pfn>, len: u64) {
        self.first.store(first.map_or(0, |pfn| pfn.0 + 1), Relaxed);
        self.len.store(len, Relaxed);
    }
}

impl<M: Machine> HugetlbPool<'_, M> {
    /// Adds a folio to a list. The pool's lock is held.
    pub(super) fn push(self, list: &HugetlbList<M::Cpu>, (pfn, size): (Pfn, PageSize), init: Init) {
        let meta = self.memory.meta_of(pfn);
        meta.set_state(FrameState::hugetlb(size.order(), init));
        meta.set_prev(None);
        meta.set_next(list.first());
        list.set(Some(pfn), list.len() + 1);
    }

    /// Takes the first folio off a list. The pool's lock is held.
    pub(super) fn pop(self, list: &HugetlbList<M::Cpu>) -> Option<Pfn> {
        let pfn = list.first()?;
        let meta = self.memory.meta_of(pfn);
        list.set(meta.next(), list.len() - 1);
        meta.set_next(None);
        Some(pfn)
    }
}
