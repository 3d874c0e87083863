//! Record windows: reservations of their own, to which frames of the arena are moved.
//!
//! Moved, not shared: memory of which the host has one mapping stays private, and keeps its huge pages. So
//! the arena's own addresses of such a frame lead to other memory, empty, until it is moved back, and a
//! library that still used them would find nothing there.

use crate::os::memory::Reservation;
use interleaf::units::{PAGE_SIZE, Pfn, PfnRange};
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Alignment of windows: huge pages of the host's.
pub(super) const ALIGN: usize = 2 << 20;

/// All record windows of an arena.
#[derive(Debug, Default)]
pub(super) struct RecordWindows(Mutex<Vec<RecordWindow>>);

#[derive(Debug)]
struct RecordWindow {
    memory: Reservation,
    /// Bytes before the window's start: it is aligned.
    skipped: usize,
    len_bytes: usize,
    /// Byte offsets from the window's start, and the frames that were moved there.
    mapped: Vec<(usize, PfnRange)>,
}

impl RecordWindow {
    fn new(len_bytes: usize) -> io::Result<Self> {
        let all = len_bytes.checked_add(ALIGN).ok_or_else(|| io::Error::other("too long"))?;
        let memory = Reservation::new(all)?;
        let skipped = memory.start().addr().get().wrapping_neg() & (ALIGN - 1);
        memory.open(skipped..skipped + len_bytes)?;
        Ok(Self { memory, skipped, len_bytes, mapped: Vec::new() })
    }

    fn offset_of(&self, at: NonNull<u8>) -> Option<usize> {
        let offset = at.addr().get().checked_sub(self.memory.start().addr().get() + self.skipped)?;
        (offset < self.len_bytes).then_some(offset)
    }

    fn frame_at(&self, offset: usize) -> Option<Pfn> {
        self.mapped.iter().find_map(|&(start, frames)| {
            let page = (offset.checked_sub(start)? / PAGE_SIZE) as u64;
            (page < frames.len()).then(|| frames.start.add(page))
        })
    }
}

impl RecordWindows {
    /// A new window, all of which reads as zeroes.
    pub(super) fn reserve(&self, len_bytes: usize) -> io::Result<NonNull<u8>> {
        let window = RecordWindow::new(len_bytes)?;
        // SAFETY: the offset is less than the reservation is longer than the window.
        let start = unsafe { window.memory.start().add(window.skipped) };
        self.lock().push(window);
        Ok(start)
    }

    /// Moves the part of `arena` from `offset` on, which is `frames`, to a window.
    ///
    /// # Safety
    /// As for [`Reservation::move_here`].
    pub(super) unsafe fn map(
        &self,
        at: NonNull<u8>,
        frames: PfnRange,
        arena: &Reservation,
        offset: usize,
    ) -> bool {
        let mut windows = self.lock();
        let mut found = windows.iter_mut().filter_map(|window| Some((window.offset_of(at)?, window)));
        let (to, window) = found.next().expect("no record window is there");
        let len_bytes = frames.len() as usize * PAGE_SIZE;
        assert!(to % PAGE_SIZE == 0 && len_bytes <= window.len_bytes - to, "beyond the record window");
        let mut pages = (to..to + len_bytes).step_by(PAGE_SIZE);
        debug_assert!(pages.all(|page| window.frame_at(page).is_none()), "mapped over other frames");
        // SAFETY: the caller's promise is the same.
        let moved =
            unsafe { window.memory.move_here(window.skipped + to, arena, offset..offset + len_bytes) };
        if moved.is_ok() {
            window.mapped.push((to, frames));
        }
        moved.is_ok()
    }

    /// The frame behind an address of a window.
    pub(super) fn frame_behind(&self, at: NonNull<u8>) -> Option<Pfn> {
        self.lock().iter().find_map(|window| window.frame_at(window.offset_of(at)?))
    }

    /// Gives up all windows; `back` moves what is at an offset of a reservation back.
    pub(super) fn dissolve(&self, back: impl Fn(&Reservation, usize, PfnRange)) {
        for RecordWindow { memory, skipped, mapped, .. } in self.lock().drain(..) {
            mapped.iter().for_each(|&(offset, frames)| back(&memory, skipped + offset, frames));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RecordWindow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
