//! A frame whose bytes an embedder may write, until it becomes memory of an object.

use super::frame_ref::byte_of;
use super::{Frame, FrameRef, ZeroedFrame};
use crate::machine::Machine;
use core::fmt;

/// A frame that a page of an object is filled into. All of its bytes are zero until they are written, so no
/// program finds there what another one has left.
pub struct PageFill<'m, M: Machine> {
    /// Invariant: all of its bytes are zero, unless `is_written`.
    frame: Frame<'m, M>,
    is_written: bool,
}

impl<'m, M: Machine> PageFill<'m, M> {
    /// Zeros.
    pub(crate) fn new(frame: ZeroedFrame<'m, M>) -> Self {
        Self { frame: frame.into(), is_written: false }
    }

    /// Stores bytes of the page, from `offset` on.
    ///
    /// # Panics
    /// Where they do not lie in the page.
    pub fn write(&mut self, offset: usize, from: &[u8]) {
        let to = byte_of(self.frame.pfn(), offset, from.len());
        self.is_written = true;
        // SAFETY: the bytes lie in the frame, as just checked, which this value owns: no program uses it yet,
        // and no borrow of it exists.
        unsafe { self.frame.memory().machine().copy_in(from, to) };
    }

    /// The frame, if nothing was written.
    pub(crate) fn into_untouched(self) -> Option<ZeroedFrame<'m, M>> {
        let (memory, pfn, size) = if self.is_written { return None } else { self.frame.into_parts() };
        Some(ZeroedFrame::new(memory, pfn, size))
    }

    /// The frame as memory of an object, with one reference. `owner` are the object and the page in it.
    pub(crate) fn into_file(self, owner: (u64, u64)) -> FrameRef<'m, M> {
        self.frame.put_to_file(owner)
    }
}

impl<M: Machine> fmt::Debug for PageFill<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a page to fill, {:?}, written: {}", self.frame, self.is_written)
    }
}
