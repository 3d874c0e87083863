//! Bytes of a test machine's frames.

use super::TestMachine;
use crate::machine::{Format, Machine};
#[cfg(loom)]
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{PAGE_SIZE, Pfn, PhysAddr};

impl<F: Format> TestMachine<F> {
    /// Reads bytes of a frame, `offset + to.len() <= 4096`.
    pub fn read(&self, pfn: Pfn, offset: usize, to: &mut [u8]) {
        assert!(offset + to.len() <= PAGE_SIZE);
        // SAFETY: the bytes lie in the arena, and `to` is exclusive.
        unsafe { self.bytes(pfn, offset, to.len()).copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
    }

    /// Writes bytes of a frame, as a device: for tests, to frames that no Rust code borrows from.
    pub fn write(&self, pfn: Pfn, offset: usize, from: &[u8]) {
        assert!(offset + from.len() <= PAGE_SIZE);
        self.note_contents();
        // SAFETY: the bytes lie in the arena.
        unsafe { self.bytes(pfn, offset, from.len()).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }

    /// Bytes of frames are about to be stored or copied.
    pub(super) fn note_contents(&self) {
        #[cfg(loom)]
        self.contents.fetch_add(1, Relaxed);
    }

    pub(super) fn bytes(&self, pfn: Pfn, offset: usize, len: usize) -> *mut u8 {
        assert!(offset + len <= self.bytes_in_all());
        let at = PhysAddr(pfn.addr().0 + offset as u64);
        if len > 0 {
            self.window(PhysAddr(at.0 + len as u64 - 1));
        }
        self.window(at).as_ptr()
    }
}
