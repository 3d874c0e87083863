//! Numbers that tell two structures of one kind apart while the program runs.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that no other call of [`UniqueId::new`] returns. It is never used again, so it still tells a
/// structure from those that lie at its address later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueId(NonZeroU64);

impl UniqueId {
    /// The next number. (Not `Default`: two calls return different values.)
    #[expect(clippy::new_without_default, reason = "two calls return different values")]
    pub fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only uniqueness matters.
        Self(NonZeroU64::MIN.saturating_add(LAST.fetch_add(1, Relaxed)))
    }

    /// The number; not 0.
    #[inline(always)]
    pub fn get(self) -> u64 {
        self.0.get()
    }
}
