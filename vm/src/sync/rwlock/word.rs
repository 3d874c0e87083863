//! The lock's word, and its transitions as pure functions.

#![forbid(unsafe_code)]

/// Number of readers that hold the lock.
pub(super) const READERS: u32 = OPEN - 1;
/// A writer has released the lock while writers waited and no reader: any thread may take it. No thread holds
/// it.
pub(super) const OPEN: u32 = 1 << 28;
/// A reader waits; then a writer holds the lock, or waits and is about to be granted it.
pub(super) const READER_WAITS: u32 = 1 << 29;
/// A writer holds the lock.
pub(super) const WRITER: u32 = 1 << 30;
/// A writer waits.
pub(super) const WRITER_WAITS: u32 = 1 << 31;

/// Writers that may pass the writer that waits longest; the lock is granted to it after that. Many, because
/// one that is awake has the lock granted sooner (`is_first_late`), and to grant it to one that the host does
/// not let run helps no thread. Few where tests are to see both ways.
pub(super) const MAX_PASSES: u32 = if cfg!(loom) {
    2
} else if cfg!(debug_assertions) {
    8
} else {
    1 << 14
};

/// The word after a reader has taken the lock, unless a writer holds it or waits.
#[inline(always)]
pub(super) fn taken_by_reader(word: u32) -> Option<u32> {
    (word & (WRITER | WRITER_WAITS) == 0 && word & READERS != READERS).then_some(word + 1)
}

/// The word after a reader has taken the lock, also between two writers.
pub(super) fn taken_by_late_reader(word: u32) -> Option<u32> {
    if word & OPEN != 0 { Some(word - OPEN + 1) } else { taken_by_reader(word) }
}

/// The word after a writer that did not wait has taken the lock, if it is free, or between two writers.
pub(super) fn taken_by_writer(word: u32) -> Option<u32> {
    match word {
        0 => Some(WRITER),
        word if word & OPEN != 0 => Some(word - OPEN + WRITER),
        _ => None,
    }
}

/// The word after the writer that waited longest holds the lock; `others_wait`: other writers.
pub(super) fn held_by_waiter(word: u32, others_wait: bool) -> u32 {
    WRITER | (word & READER_WAITS) | if others_wait { WRITER_WAITS } else { 0 }
}

/// The word after a writer has granted the lock to `nr_readers` readers.
pub(super) fn held_by_readers(word: u32, nr_readers: u32) -> u32 {
    (word & WRITER_WAITS) | nr_readers
}

/// The threads that may take the lock after a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    /// The readers that wait, all of them, and no writer.
    Readers,
    /// The writer that waits longest, alone.
    FirstWriter,
    /// Any thread: no reader waits, and the writer that waits longest was not passed too often.
    Anybody,
}

/// The threads that may take the lock after the writer that holds it, where one waits. `nr_passes` writers
/// have passed the writer that waits longest; `is_first_late`: it was woken and came too late.
pub(super) fn successor(word: u32, nr_passes: u32, is_first_late: bool) -> Successor {
    if word & READER_WAITS != 0 {
        let wrong = word & WRITER_WAITS != 0 && mutant!("rwlock.writers-first");
        if wrong { Successor::FirstWriter } else { Successor::Readers }
    } else if (nr_passes >= MAX_PASSES || is_first_late) && !mutant!("rwlock.passed-without-limit") {
        Successor::FirstWriter
    } else {
        Successor::Anybody
    }
}
