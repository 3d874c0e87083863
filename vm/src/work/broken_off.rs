//! The parts of a job's chunks that are not done because the chunks failed, for its undo.
//!
//! A worker that breaks off a chunk notes the part that it leaves: a helper in its worker slot, the caller in
//! the job. The helpers' notes of a job form a list through their slots, to which each adds its own. The
//! caller reads the list once all visits have ended, and frees the notes after the undo. Until then their
//! helpers join no other item that they find, so that each has one note at most: a job needs no memory for
//! the notes, however many helpers it has. No helper waits for its note to be freed: a caller may wait for
//! visits of its own, which wait for others.

#![forbid(unsafe_code)]

use super::dispatch::Dispatch;
use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use crate::units::CpuId;
use core::fmt;
use core::iter::successors;
use core::ops::Range;

/// Room for one range, and a link to another worker's note.
pub(super) struct Note<C: Cpu> {
    /// 0: free. Else 1 more than the number of the worker whose note is next in the list, or than 0 at its
    /// end. Written by the worker, and freed by the caller that has read the list (release, acquired by the
    /// worker before it joins an item).
    link: AtomicU32<C>,
    // Relaxed: ordered by the list's head.
    start: AtomicU64<C>,
    end: AtomicU64<C>,
}

impl<C: Cpu> Note<C> {
    pub(super) const fn new() -> Self {
        Self { link: AtomicU32::new(0), start: AtomicU64::new(0), end: AtomicU64::new(0) }
    }

    pub(super) fn is_free(&self) -> bool {
        self.link.load(Acquire) == 0 || mutant!("job.joined-with-note")
    }

    fn set(&self, rest: &Range<u64>) {
        self.start.store(rest.start, Relaxed);
        self.end.store(rest.end, Relaxed);
    }

    fn range(&self) -> Range<u64> {
        self.start.load(Relaxed)..self.end.load(Relaxed)
    }

    /// Frees the note. Returns the number of the worker whose note is next, or 0.
    fn free(&self) -> u32 {
        let next = self.link.load(Relaxed) - 1;
        if !mutant!("job.note-not-freed") {
            self.link.store(0, Release);
        }
        next
    }
}

/// The notes of a job under way; freed when dropped.
pub(super) struct BrokenOff<'d, C: Cpu> {
    dispatch: &'d Dispatch<'d, C>,
    /// The caller's; empty where it has broken off nothing.
    own: Note<C>,
    /// Number of the worker whose note was added last; 0: none. Release; acquired by the reader.
    newest: AtomicU32<C>,
}

impl<'d, C: Cpu> BrokenOff<'d, C> {
    pub(super) const fn new(dispatch: &'d Dispatch<'d, C>) -> Self {
        Self { dispatch, own: Note::new(), newest: AtomicU32::new(0) }
    }

    /// Notes that `rest` of a chunk of `worker` is not done; see [`Chunk::worker`](super::Chunk::worker).
    /// Called once by each worker: the job is stopped, so it begins no other chunk.
    pub(super) fn note(&self, worker: u32, rest: &Range<u64>) {
        let Some(cpu) = worker.checked_sub(1).map(CpuId) else { return self.own.set(rest) };
        let note = self.dispatch.note_of(cpu);
        debug_assert!(note.link.load(Relaxed) == 0, "{cpu:?} breaks off a second chunk");
        note.set(rest);
        let added = self.newest.update(Release, Relaxed, |newest| {
            note.link.store(newest + 1, Relaxed);
            Some(worker)
        });
        debug_assert!(added.is_ok());
    }

    /// The ranges noted. All visits have ended.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let at = |worker: u32| worker.checked_sub(1).map(|cpu| self.dispatch.note_of(CpuId(cpu)));
        let helpers = successors(at(self.newest.load(Acquire)), move |note| {
            at(note.link.load(Relaxed).checked_sub(1)?)
        });
        core::iter::once(&self.own).chain(helpers).map(Note::range)
    }
}

impl<C: Cpu> Drop for BrokenOff<'_, C> {
    fn drop(&mut self) {
        let mut worker = *self.newest.get_mut();
        while let Some(cpu) = worker.checked_sub(1).map(CpuId) {
            worker = self.dispatch.note_of(cpu).free();
            // It may have passed by an item meanwhile.
            self.dispatch.notify(cpu);
        }
    }
}

impl<C: Cpu> fmt::Debug for BrokenOff<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges()).finish()
    }
}
