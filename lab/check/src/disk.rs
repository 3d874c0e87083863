//! A file on a disk: a pager whose pages are written back, in memory.

use super::calls::PAGE;
use interleaf::frame::PageFill;
use interleaf::machine::Format;
use interleaf::object::{PageAnswer, PageContents, Pager, PagerKey};
use interleaf_lab::machine::soft::{Flavour, SoftMachine};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Mutex, MutexGuard};

/// The key of the file.
pub const FILE: PagerKey = PagerKey(1);

/// The disk: the pages of one file, of which those that were never written are zeros.
#[derive(Debug, Default)]
pub struct Disk {
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Pages that are neither read nor written for a while.
    kept_away: Mutex<Vec<Range<u64>>>,
    /// Held by a caller that changes the file's length, or holes it.
    lock: AtomicBool,
    /// The length that the file begins with, in bytes.
    len_bytes: u64,
}

impl Disk {
    /// A disk with a file of zeros.
    #[must_use]
    pub fn new(len_bytes: u64) -> Self {
        Self { len_bytes, ..Self::default() }
    }

    fn pages(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.pages.lock().expect("no holder panics")
    }

    /// Makes the file one of zeros again.
    pub fn clear(&self) {
        self.pages().clear();
    }

    /// The bytes of a page.
    #[must_use]
    pub fn page(&self, page: u64) -> Vec<u8> {
        self.pages().get(&page).cloned().unwrap_or_else(|| vec![0; PAGE as usize])
    }

    /// From now on these pages are not ready to be read, and are not written: they are about to go.
    pub fn keep_away(&self, pages: Range<u64>) {
        self.kept_away.lock().expect("no holder panics").push(pages);
    }

    /// Takes the right to change the file's length, or to hole it, which one caller has at a time. `false`
    /// where another one has it.
    pub fn try_lock(&self) -> bool {
        !self.lock.swap(true, Acquire)
    }

    /// Gives it back.
    pub fn unlock(&self) {
        self.lock.store(false, Release);
    }

    /// Ends that of one caller.
    pub fn let_in(&self, pages: &Range<u64>) {
        let mut all = self.kept_away.lock().expect("no holder panics");
        if let Some(at) = all.iter().position(|kept| kept == pages) {
            all.remove(at);
        }
    }

    fn is_kept_away(&self, page: u64) -> bool {
        self.kept_away.lock().expect("no holder panics").iter().any(|kept| kept.contains(&page))
    }

    /// Bytes from there on are zeros.
    pub(super) fn shorten(&self, len: u64) {
        self.zero(len..u64::MAX);
    }

    /// Bytes are zeros.
    pub(super) fn zero(&self, range: Range<u64>) {
        for (page, bytes) in self.pages().range_mut(range.start / PAGE..) {
            for (at, byte) in (page * PAGE..).zip(bytes) {
                *byte = if range.contains(&at) { 0 } else { *byte };
            }
        }
    }
}

impl<C: Flavour, F: Format> Pager<SoftMachine<C, F>> for Disk {
    fn try_page(&self, _: PagerKey, page: u64, into: &mut PageFill<'_, SoftMachine<C, F>>) -> PageAnswer {
        if self.is_kept_away(page) {
            return PageAnswer::NotReady;
        }
        into.write(0, &self.page(page));
        PageAnswer::Ready
    }

    fn size_bytes(&self, _: PagerKey) -> u64 {
        self.len_bytes
    }

    fn is_written_back(&self, _: PagerKey) -> bool {
        true
    }

    fn write_back(
        &self,
        _: PagerKey,
        page: u64,
        from: &PageContents<'_, '_, SoftMachine<C, F>>,
    ) -> PageAnswer {
        let mut bytes = vec![0; PAGE as usize];
        from.read(0, &mut bytes[..from.len()]);
        if !self.is_kept_away(page) {
            self.pages().insert(page, bytes);
        }
        PageAnswer::Ready
    }
}
