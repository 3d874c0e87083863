//! Frames used as 512 shared words: page tables, and nodes of page indexes.

use crate::frame::{FrameMeta, Kind, Memory};
use crate::machine::{Cpu, Machine, TablePage};
use crate::sync::atomic::AtomicU64;
use crate::units::Pfn;
use core::marker::PhantomData;

/// The 512 words of a table frame. A plain handle: it keeps nothing alive, and its maker sees to it that it
/// is used only as long as the frame is a table.
pub(crate) struct Words<'m, C> {
    page: &'m TablePage,
    pfn: Pfn,
    _cpu: PhantomData<fn() -> C>,
}

impl<'m, C: Cpu> Words<'m, C> {
    /// The frame of the words.
    #[inline(always)]
    pub(crate) fn pfn(self) -> Pfn {
        self.pfn
    }

    /// Word `slot`, which is below 512.
    #[inline(always)]
    pub(crate) fn at(self, slot: usize) -> &'m AtomicU64<C> {
        // SAFETY: frames of kind `Table` are reached as words only, here, by machines' walkers through
        // atomics, and by the hardware; the frame is of that kind as long as this is used, as the maker of
        // the handle promised (`Memory::words`).
        unsafe { AtomicU64::from_cell(&self.page.words[slot]) }
    }
}

impl<C> Clone for Words<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Words<'_, C> {}

impl<M: Machine> Memory<'_, M> {
    /// Word `slot` (below 512) of a table frame that the test keeps.
    #[cfg(test)]
    pub(crate) fn word(&self, pfn: Pfn, slot: usize) -> &AtomicU64<M::Cpu> {
        // SAFETY: for tests, which keep the frame as long as they use the word.
        unsafe { self.words(pfn) }.at(slot)
    }

    /// The words of a table frame.
    ///
    /// # Safety
    /// The frame is a table of this memory, and stays one as long as the result, or a copy of it, is used.
    #[inline(always)]
    pub(crate) unsafe fn words(&self, pfn: Pfn) -> Words<'_, M::Cpu> {
        debug_assert_eq!(self.meta_of(pfn).state().kind(), Kind::Table, "{pfn:?} holds no words");
        // SAFETY: the frame is of this memory, as the caller promises, whose frames the machine has given.
        let page = unsafe { self.machine.table(pfn) };
        Words { page, pfn, _cpu: PhantomData }
    }

    /// The record of a table frame of this memory.
    #[inline(always)]
    pub(crate) fn meta_of_table(&self, words: Words<'_, M::Cpu>) -> &FrameMeta<M::Cpu> {
        self.meta_of(words.pfn)
    }
}
