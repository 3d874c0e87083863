//! Frames used as 512 shared words: page tables, and the indexes of objects.

use super::{Kind, Memory};
use crate::machine::Machine;
use crate::sync::atomic::AtomicU64;
use crate::units::Pfn;

impl<M: Machine> Memory<'_, M> {
    /// Word `slot` (below 512) of a frame that was allocated as a table. The caller keeps it from being freed: it is attached
    /// and locked, or a read section began before it was cut out.
    #[inline(always)]
    pub(crate) fn word(&self, pfn: Pfn, slot: usize) -> &AtomicU64<M::Cpu> {
        debug_assert_eq!(self.meta_of(pfn).state().kind(), Kind::Table, "{pfn:?} holds no words");
        let cell = &self.machine.table(pfn).words[slot];
        // SAFETY: frames of kind `Table` are reached as words only, here, by machines' walkers through atomics, and by the
        // hardware; the caller keeps the frame one.
        unsafe { AtomicU64::from_cell(cell) }
    }
}
