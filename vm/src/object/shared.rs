//! Shared anonymous memory.

use super::page_index::PageIndex;
use crate::frame::{Memory, TakenSlot, ZeroedFrame};
use crate::machine::{Cpu, Machine};
use crate::sync::{ReadGuard, SpinLock, UniqueId, lockdep};
use crate::units::Pfn;
use core::fmt;
use core::num::NonZeroU64;

/// Shared anonymous memory. It lives while a page of it is mapped; then until a grace period.
pub(crate) struct Object<C: Cpu> {
    /// Its number, which the records of its frames name.
    number: NonZeroU64,
    /// Pages that mappings cover; 0: dead. Its lock also guards which frames the index has.
    mapped: SpinLock<u64, C, { lockdep::FILE.0 }>,
    index: PageIndex<C>,
}

/// Why a page of an object cannot be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillError {
    /// The object is dead: no page of it is mapped.
    Dead,
    /// No frame for a node.
    NoMemory,
}

impl<C: Cpu> Object<C> {
    /// An object of which `pages` pages are about to be mapped, for frames of `memory` and readers of `rcu`.
    pub(super) fn new(number: NonZeroU64, pages: u64, memory: UniqueId, rcu: UniqueId) -> Self {
        Self { number, mapped: SpinLock::new(pages), index: PageIndex::new(memory, rcu) }
    }

    /// The frame that holds a page; stale at once, and returned without a reference.
    #[inline]
    pub(crate) fn lookup<M: Machine<Cpu = C>>(
        &self,
        memory: &Memory<'_, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Option<Pfn> {
        self.index.lookup(memory, page, reading)
    }

    /// Puts `frame` at `page`, unless that has a frame already: then it stays the caller's. Returns the frame
    /// that holds the page from now on; stale at once.
    ///
    /// # Errors
    /// On an error nothing changes; the frame stays the caller's.
    pub(crate) fn fill<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        frame: &mut Option<ZeroedFrame<'_, M>>,
        reading: &ReadGuard<'_, C>,
    ) -> Result<Pfn, FillError> {
        let mapped = self.mapped.lock();
        if *mapped == 0 && !mutant!("object.dead-filled") {
            return Err(FillError::Dead);
        }
        if let Some(there) = self.index.lookup(memory, page, reading) {
            return Ok(there);
        }
        let slot = self.index.place(memory, page, reading).ok_or(FillError::NoMemory)?;
        let filled = frame.take().ok_or(FillError::NoMemory)?.into_file((self.number.get(), page));
        let pfn = filled.pfn();
        let put = slot.put_frame(filled);
        debug_assert!(put.is_ok(), "the slot was empty under the lock");
        Ok(pfn)
    }

    /// Takes the frame of a page out, as truncating a file will (P12). No other thread fills the object
    /// meanwhile.
    #[cfg(test)]
    pub(crate) fn take_out<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        page: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Option<crate::frame::FrameRef<'m, M>> {
        match self.index.place(memory, page, reading)?.take() {
            TakenSlot::Frame(frame) => Some(frame),
            _ => None,
        }
    }

    /// Counts `pages` more mapped pages; the object is not dead.
    pub(super) fn mapped(&self, pages: u64) {
        *self.mapped.lock() += pages;
    }

    /// Counts `pages` fewer mapped pages. Returns all that the index held where the object dies.
    pub(super) fn unmapped<'m, M: Machine<Cpu = C>>(
        &self,
        memory: &'m Memory<'m, M>,
        pages: u64,
        reading: &ReadGuard<'_, C>,
    ) -> Option<TakenSlot<'m, M>> {
        let mut mapped = self.mapped.lock();
        *mapped = mapped.saturating_sub(pages);
        (*mapped == 0).then(|| self.index.take_all(memory, reading))
    }
}

impl<C: Cpu> fmt::Debug for Object<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}", self.number)
    }
}
