//! A process's open files: for each number, which file it is and how far it was read. Threads share them, a
//! child begins with its parent's.

use core::sync::atomic::{AtomicU64, Ordering::*};

/// Numbers of open files: those from 3 on. 0 to 2 are the console.
const PLACES: usize = 8;
/// The first of them.
const FIRST: u64 = 3;

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Which file, by a number that the files give.
    pub file: u32,
    /// How many bytes of it were read.
    pub offset: u32,
}

impl OpenFile {
    fn word(self) -> u64 {
        ((u64::from(self.file) + 1) << 32) | u64::from(self.offset)
    }

    fn of_word(word: u64) -> Option<Self> {
        let file = (word >> 32).checked_sub(1)?;
        Some(Self { file: file as u32, offset: word as u32 })
    }
}

/// The open files of a process. Each word stands alone, so all are relaxed: 0, or [`OpenFile::word`].
pub struct OpenFiles([AtomicU64; PLACES]);

impl OpenFiles {
    /// None is open.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; PLACES])
    }

    /// Those of the parent, where there is one.
    pub(super) fn inherit(&self, parent: Option<&OpenFiles>) {
        for (at, own) in self.0.iter().enumerate() {
            own.store(parent.map_or(0, |parent| parent.0[at].load(Relaxed)), Relaxed);
        }
    }

    /// Opens a file; its number. `None` where too many are open.
    pub fn open(&self, file: u32) -> Option<u64> {
        let word = OpenFile { file, offset: 0 }.word();
        let take = |place: &AtomicU64| place.compare_exchange(0, word, Relaxed, Relaxed).is_ok();
        self.0.iter().position(take).map(|at| FIRST + at as u64)
    }

    /// The open file of a number.
    pub fn get(&self, number: u64) -> Option<OpenFile> {
        OpenFile::of_word(self.place(number)?.load(Relaxed))
    }

    /// Notes that so many more bytes were read of `file`, unless another thread has read or closed it since.
    pub fn advance(&self, number: u64, file: OpenFile, bytes: u32) {
        if let Some(place) = self.place(number) {
            let next = OpenFile { offset: file.offset.saturating_add(bytes), ..file };
            let _ = place.compare_exchange(file.word(), next.word(), Relaxed, Relaxed);
        }
    }

    /// Closes a file; whether it was open.
    pub fn close(&self, number: u64) -> bool {
        self.place(number).is_some_and(|place| place.swap(0, Relaxed) != 0)
    }

    fn place(&self, number: u64) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(number.checked_sub(FIRST)?).ok()?)
    }
}
