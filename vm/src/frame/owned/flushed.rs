//! Proof that translations were flushed, and what an edit does with frames that others may map too.

use crate::frame::Memory;
use crate::machine::Machine;
use crate::units::Pfn;

/// Proof that a batch was flushed, for the edit that added to it.
#[derive(Debug)]
pub(crate) struct Flushed(());

impl Flushed {
    /// The flush of a batch has ended.
    pub(super) fn after_flush() -> Self {
        Self(())
    }

    /// Puts the mapping that a slot held pending, left there by the edit that was flushed.
    pub fn put<M: Machine>(&self, memory: &Memory<'_, M>, pfn: Pfn) {
        memory.put_mapping(pfn);
    }
}

/// What becomes of a leaf whose frame others may map too, as the gather of the edit says.
#[derive(Debug)]
pub(crate) enum IfShared<'f> {
    /// It is cleared, and added to the gather.
    Add,
    /// It is cleared, and its slot keeps the mapping, *pending*.
    Leave,
    /// It is cleared, and its mapping is put at once: no CPU translates through the table.
    Put(&'f Flushed),
}
