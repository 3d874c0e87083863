//! Shared anonymous memory.
//!
//! An object lives in one frame of words; its number is the frame's. The lock of its frame record
//! guards its frames and its count.

use super::page_index::PageIndex;
use crate::frame::{Init, Memory, Priority, ZeroedFrame};
use crate::machine::{Machine, Rank};
use crate::sync::atomic::{AtomicU64, Ordering::*};
use crate::sync::{RawGuard, Rcu, ReadGuard, lockdep};
use crate::units::Pfn;
use core::fmt;
use core::num::NonZeroUsize;

/// Words of an object's frame.
#[derive(Clone, Copy)]
enum Word {
    /// Pages that mappings cover; 0: dead. Changed under the lock.
    Mapped = 0,
    /// The root of the index.
    Root = 1,
}

/// Shared anonymous memory, by its number. It lives while a page of it is mapped; then until a grace period.
pub struct Object<'a, 'm, M: Machine> {
    memory: &'a Memory<'m, M>,
    pfn: Pfn,
}

/// Why a page of an object cannot be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillError {
    /// The object is dead: no page of it is mapped.
    Dead,
    /// No frame for a node.
    NoMemory,
}

impl<'a, 'm, M: Machine> Object<'a, 'm, M> {
    /// An object of which `pages` pages are about to be mapped. Returns its number; `None` where there is no
    /// memory.
    pub fn create(memory: &'a Memory<'m, M>, pages: u64) -> Option<Self> {
        let pfn = memory.alloc_table(Priority::Normal)?.attach(memory);
        let object = Self { memory, pfn };
        object.word(Word::Mapped).store(pages, Relaxed);
        Some(object)
    }

    /// The object with this number.
    pub fn at(memory: &'a Memory<'m, M>, number: NonZeroUsize) -> Self {
        Self { memory, pfn: Pfn(number.get() as u64) }
    }

    /// The object's number.
    pub fn number(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.pfn.0 as usize)
    }

    fn word(&self, word: Word) -> &'a AtomicU64<M::Cpu> {
        self.memory.word(self.pfn, word as usize)
    }

    fn index(&self) -> PageIndex<'a, 'm, M> {
        PageIndex { memory: self.memory, root: self.word(Word::Root) }
    }

    fn lock(&self) -> Option<RawGuard<'a, M::Cpu>> {
        Some(self.memory.meta(self.pfn)?.table_lock().lock(FILE))
    }

    /// The frame that holds a page; stale at once, and returned without a reference.
    #[inline]
    pub fn lookup(&self, page: u64, _reading: &ReadGuard<'_, M::Cpu>) -> Option<Pfn> {
        self.index().lookup(page)
    }

    /// Puts `frame` at `page`, unless that has a frame already: then it stays the caller's. Returns the frame
    /// that holds the page from now on; stale at once.
    ///
    /// # Errors
    /// On an error nothing changes; the frame stays the caller's.
    pub fn fill(&self, page: u64, frame: &mut Option<ZeroedFrame<'_, M>>) -> Result<Pfn, FillError> {
        let _held = self.lock().ok_or(FillError::Dead)?;
        if self.word(Word::Mapped).load(Relaxed) == 0 {
            return Err(FillError::Dead);
        }
        if let Some(there) = self.index().lookup(page) {
            return Ok(there);
        }
        let place = self.index().place(page).ok_or(FillError::NoMemory)?;
        // The index's reference.
        let pfn = frame.take().ok_or(FillError::NoMemory)?.into_file((self.pfn.0, page)).into_pfn();
        place.store(pfn.0 + 1, Release);
        Ok(pfn)
    }

    /// Takes the frame of a page out, with the index's reference, as truncating a file will (P12). No other
    /// thread fills the object meanwhile.
    #[cfg(all(test, not(loom)))]
    pub fn take_out(&self, page: u64) -> Option<Pfn> {
        let frame = self.index().lookup(page)?;
        self.index().place(page)?.store(0, Release);
        Some(frame)
    }

    /// Counts `pages` more mapped pages; the object is not dead.
    pub fn mapped(&self, pages: u64) {
        let _held = self.lock();
        let mapped = self.word(Word::Mapped);
        mapped.store(mapped.load(Relaxed) + pages, Relaxed);
    }

    /// Counts `pages` fewer mapped pages, which are unmapped and flushed. At zero the object dies: its frames
    /// are freed now, its index after a grace period.
    pub fn unmapped(&self, pages: u64, rcu: &Rcu<M::Cpu>) {
        let Some(held) = self.lock() else { return };
        let mapped = self.word(Word::Mapped);
        let left = mapped.load(Relaxed).saturating_sub(pages);
        mapped.store(left, Relaxed);
        drop(held);
        if left == 0 {
            let memory = self.memory;
            let mut retire = |node| {
                if let Some(table) = memory.detach_table(node, Init::Dirty, Some(rcu.id())) {
                    table.retire(rcu);
                }
            };
            self.index().dismantle(&mut |frame| memory.put(frame), &mut retire);
            retire(self.pfn);
        }
    }
}

/// Rank of an object's lock.
const FILE: Rank = lockdep::FILE;

impl<M: Machine> fmt::Debug for Object<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {:#x}", self.pfn.0)
    }
}
