//! Loops that touch the entries and records of as many pages as a fork, an exit or a munmap does, and do
//! nothing else: no code that has to be right can take less.
//!
//! An entry is a word, a record has 32 bytes. Each loop changes a record by one locked instruction, as must
//! all code that shares frames with CPUs that take references without a lock, and entries by plain stores.

use crate::os::memory::prefer_huge_pages;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Instant;

/// Entries of two spaces, and the records of the frames that they map.
pub(super) struct Touched {
    entries: Vec<AtomicU64>,
    child: Vec<AtomicU64>,
    records: Vec<[AtomicU64; 4]>,
}

impl Touched {
    /// Of `pages` pages, in memory like that of the machines that ours are timed on.
    pub fn new(pages: u64) -> Self {
        Self { entries: present(pages), child: present(pages), records: present(pages) }
    }

    /// Nanoseconds of a page that is shared: its record is counted up, both spaces get an entry.
    pub fn share(&self) -> f64 {
        self.per_page(|| {
            for ((entry, child), record) in self.entries.iter().zip(&self.child).zip(&self.records) {
                let word = entry.load(Relaxed);
                let state = record[0].load(Relaxed);
                let _is_changed = record[0].compare_exchange(state, state + 1, AcqRel, Relaxed);
                record[1].store(state, Relaxed);
                entry.store(word | 1, Relaxed);
                child.store(word | 1, Relaxed);
            }
        })
    }

    /// Nanoseconds of a page that one of two spaces gives up: its entry is cleared, its record counted down.
    pub fn give_up(&self) -> f64 {
        self.per_page(|| {
            for (entry, record) in self.child.iter().zip(&self.records) {
                black_box(entry.load(Relaxed));
                entry.store(0, Relaxed);
                black_box(record[0].load(Relaxed));
                record[1].fetch_sub(1, AcqRel);
            }
        })
    }

    /// Nanoseconds of the same page where a flush has to come between the two: no count goes down before it.
    pub fn unmap(&self) -> f64 {
        self.per_page(|| {
            for entry in &self.child {
                let word = entry.load(Relaxed);
                entry.store(black_box(word & !1), Relaxed);
            }
            for (entry, record) in self.child.iter().zip(&self.records) {
                black_box(entry.load(Relaxed));
                entry.store(0, Relaxed);
                record[1].fetch_sub(1, AcqRel);
            }
        })
    }

    fn per_page(&self, work: impl FnOnce()) -> f64 {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / self.entries.len() as f64
    }
}

fn present<T: Default>(pages: u64) -> Vec<T> {
    let mut all = Vec::with_capacity(pages as usize);
    prefer_huge_pages(all.spare_capacity_mut());
    all.resize_with(pages as usize, T::default);
    all
}
