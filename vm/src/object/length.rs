//! The length of an object: where its pages end.

use super::seals::Seals;
use super::shared::Object;
use crate::machine::Cpu;
use crate::sync::atomic::Ordering::*;
use crate::units::{Order, PAGE_SIZE};

impl<C: Cpu> Object<C> {
    /// Its length in bytes; stale at once.
    pub(crate) fn len_bytes(&self) -> u64 {
        // Acquire: what was done to the object before. Pairs with `set_len`.
        self.len_bytes.load(Acquire)
    }

    /// Base pages that it may have; stale at once.
    pub(crate) fn pages(&self) -> u64 {
        self.len_bytes().div_ceil(PAGE_SIZE as u64)
    }

    /// As [`pages`](Self::pages): a caller of [`set_len`](Self::set_len) that comes later sees what this one
    /// has done before.
    pub(crate) fn pages_exact(&self) -> u64 {
        let _counts = self.counts.lock();
        self.pages()
    }

    /// Whether a folio that begins at a page has none beyond the end.
    pub(crate) fn has_room(&self, page: u64, order: Order) -> bool {
        page.checked_add(order.frames()).is_some_and(|end| end <= self.pages())
    }

    /// Makes it as long as `len_bytes` at least. Returns its length before; `None` where it is sealed against
    /// that.
    pub(crate) fn extend_len(&self, len_bytes: u64) -> Option<u64> {
        let _counts = self.counts.lock();
        let before = self.len_bytes.load(Relaxed);
        if len_bytes > before && self.is_sealed(Seals::GROW) {
            return None;
        }
        self.len_bytes.store(before.max(len_bytes), Release);
        Some(before)
    }

    /// Gives it its former length, if it has the one that the caller gave it.
    pub(crate) fn shorten_again(&self, len_bytes: u64, before: u64) {
        let _counts = self.counts.lock();
        if self.len_bytes.load(Relaxed) == len_bytes {
            self.len_bytes.store(before, Release);
        }
    }

    /// Changes its length. Returns that before; `None` where it is sealed against that. Pages beyond a new
    /// end are to be taken out and unmapped next.
    pub(crate) fn set_len(&self, len_bytes: u64) -> Option<u64> {
        let _counts = self.counts.lock();
        let before = self.len_bytes.load(Relaxed);
        let is_shorter = len_bytes < before && self.is_sealed(Seals::SHRINK);
        let is_longer = len_bytes > before && self.is_sealed(Seals::GROW);
        if (is_shorter || is_longer) && !mutant!("seals.length-not-sealed") {
            return None;
        }
        // Release: pairs with `len_bytes`.
        self.len_bytes.store(len_bytes, Release);
        Some(before)
    }

    /// As [`set_len`](Self::set_len), without the lock: nothing else is done to the object.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn shorten_unlocked(&self, len_bytes: u64) {
        self.len_bytes.store(len_bytes, Release);
    }
}
