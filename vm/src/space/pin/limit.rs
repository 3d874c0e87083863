//! How many pages may be pinned.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};
use core::fmt;

/// A limit on pinned pages, and how many are charged to it. The embedder has one for each user, process, or
/// whatever it limits, and hands it to [`pin_pages`](crate::space::AddressSpace::pin_pages). (Linux:
/// `RLIMIT_MEMLOCK`, with `user_struct.locked_vm` or `mm_struct.pinned_vm`.)
pub struct MemlockLimit<C: Cpu> {
    max_pages: u64,
    /// Relaxed: a count, which orders nothing.
    locked: AtomicU64<C>,
}

/// Pages charged to a limit, given back when this is dropped.
pub(super) struct MemlockCharge<'a, C: Cpu> {
    limit: &'a MemlockLimit<C>,
    pages: u64,
}

impl<C: Cpu> MemlockLimit<C> {
    /// A limit of `max_pages`; `u64::MAX` for none.
    pub const fn new(max_pages: u64) -> Self {
        Self { max_pages, locked: AtomicU64::new(0) }
    }

    /// The most pages.
    pub fn max_pages(&self) -> u64 {
        self.max_pages
    }

    /// Number of pages charged; stale at once.
    pub fn locked_pages(&self) -> u64 {
        self.locked.load(Relaxed)
    }

    /// Charges `pages`. `None`, and no change, where the limit does not suffice.
    pub(super) fn charge(&self, pages: u64) -> Option<MemlockCharge<'_, C>> {
        let more = |locked: u64| {
            let sum = locked.checked_add(pages)?;
            (sum <= self.max_pages || mutant!("pin.limit-ignored")).then_some(sum)
        };
        self.locked.update(Relaxed, Relaxed, more).ok()?;
        Some(MemlockCharge { limit: self, pages })
    }
}

impl<C: Cpu> MemlockCharge<'_, C> {
    /// Number of pages charged.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Gives back all but `pages` of those that are charged.
    pub fn keep(&mut self, pages: u64) {
        let back = self.pages.saturating_sub(pages);
        if back > 0 {
            self.pages -= back;
            self.limit.locked.fetch_sub(back, Relaxed);
        }
    }
}

impl<C: Cpu> Drop for MemlockCharge<'_, C> {
    fn drop(&mut self) {
        self.keep(0);
    }
}

impl<C: Cpu> fmt::Debug for MemlockLimit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} pages locked", self.locked_pages(), self.max_pages)
    }
}
