//! The record of a detached table that waits for its readers.

use super::meta::FrameMeta;
use super::state::FrameState;
use crate::machine::Cpu;
use crate::sync::RcuHead;
use core::ptr::NonNull;

impl<C: Cpu> FrameMeta<C> {
    /// Marks a detached table as retired. `false` where it is attached, not a table, or retired already.
    pub(in crate::frame) fn retire(&self) -> bool {
        self.step(FrameState::retired).is_some()
    }

    /// Clears the mark of a retired table: its grace period is over. `false` where it had none.
    pub(in crate::frame) fn unretire(&self) -> bool {
        self.step(FrameState::unretired).is_some()
    }

    /// The RCU head in the link of a retired table.
    pub(in crate::frame) fn retire_head(&self) -> NonNull<RcuHead> {
        NonNull::from(&self.link).cast()
    }
}

const _: () = assert!(size_of::<RcuHead>() <= 16 && align_of::<RcuHead>() <= 8);
