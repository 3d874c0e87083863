//! Record windows of a test machine: memory of their own, which stands for the frames behind it.

use super::zeroed_memory::ZeroedMemory;
use crate::units::{PAGE_SIZE, Pfn, PfnRange};
use core::ptr::NonNull;
use std::alloc::Layout;
use std::sync::Mutex;
use std::vec::Vec;

/// The machine's large page: the records of a block, so that small memories have holes of such.
pub const ALIGN: usize = 8 * PAGE_SIZE;

/// What a frame behind a window holds from then on, seen by its address in the arena.
const BEHIND: u8 = 0x5A;

/// All windows of a machine.
#[derive(Default)]
pub struct RecordWindows(Mutex<Vec<RecordWindow>>);

struct RecordWindow {
    memory: ZeroedMemory,
    /// Byte offsets, and the frames that are mapped from there on.
    mapped: Vec<(usize, PfnRange)>,
}

// SAFETY: the value owns its memory; the library says which thread uses what of it.
unsafe impl Send for RecordWindow {}

impl RecordWindow {
    fn offset_of(&self, at: NonNull<u8>) -> Option<usize> {
        let offset = at.addr().get().checked_sub(self.memory.start().addr().get())?;
        (offset < self.memory.len_bytes()).then_some(offset)
    }

    /// The frame behind the page at `offset`.
    fn frame_at(&self, offset: usize) -> Option<Pfn> {
        self.mapped.iter().find_map(|&(start, frames)| {
            let page = (offset.checked_sub(start)? / PAGE_SIZE) as u64;
            (page < frames.len()).then(|| frames.start.add(page))
        })
    }
}

impl RecordWindows {
    /// A new window.
    pub fn reserve(&self, len_bytes: usize) -> NonNull<u8> {
        let layout = Layout::from_size_align(len_bytes, ALIGN).unwrap();
        assert!(len_bytes > 0 && len_bytes.is_multiple_of(ALIGN), "a window of {len_bytes} bytes");
        let memory = ZeroedMemory::new(layout);
        let start = memory.start();
        #[cfg(loom)]
        crate::sync::forget(start.addr().get()..start.addr().get() + len_bytes);
        self.0.lock().unwrap().push(RecordWindow { memory, mapped: Vec::new() });
        start
    }

    /// Puts frames, whose bytes are at `bytes`, behind a window: the bytes are copied, and those in the arena
    /// are made wrong, as they are not to be used any more.
    pub fn map(&self, at: NonNull<u8>, frames: PfnRange, bytes: NonNull<u8>) {
        let mut windows = self.0.lock().unwrap();
        let mut found = windows.iter_mut().filter_map(|window| Some((window.offset_of(at)?, window)));
        let (offset, window) = found.next().expect("no window is there");
        let len_bytes = frames.len() as usize * PAGE_SIZE;
        assert!(
            offset % PAGE_SIZE == 0 && offset + len_bytes <= window.memory.len_bytes(),
            "beyond the window"
        );
        let mut pages = (offset..offset + len_bytes).step_by(PAGE_SIZE);
        assert!(pages.all(|page| window.frame_at(page).is_none()), "{frames:?} mapped over other frames");
        // SAFETY: both are as long, as was just checked of the window, and as the frames are in the arena;
        // they are different allocations, and the frames are the caller's.
        unsafe { at.copy_from_nonoverlapping(bytes, len_bytes) };
        // SAFETY: as above.
        unsafe { bytes.write_bytes(BEHIND, len_bytes) };
        window.mapped.push((offset, frames));
    }

    /// The frame behind an address of a window.
    pub fn frame_behind(&self, at: NonNull<u8>) -> Option<Pfn> {
        let windows = self.0.lock().unwrap();
        windows.iter().find_map(|window| window.frame_at(window.offset_of(at)?))
    }
}
