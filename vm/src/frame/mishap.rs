//! Failure on demand: the n-th allocation from now fails, so that tests can fail every one in turn.
//!
//! Debug builds only; in release builds [`Mishap::strikes`] is `false` and costs nothing.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};

/// Counts down to a failure.
#[derive(Debug)]
pub(super) struct Mishap<C: Cpu> {
    /// Allocations until the failure, that one included; 0 for none planned. Relaxed: only a count.
    left: AtomicU64<C>,
}

impl<C: Cpu> Mishap<C> {
    pub const fn new() -> Self {
        Self { left: AtomicU64::new(0) }
    }

    /// Plans a failure, or takes it back with 0.
    pub fn plan(&self, left: u64) {
        self.left.store(left, Relaxed);
    }

    /// Whether a planned failure has not struck yet.
    pub fn is_planned(&self) -> bool {
        self.left.load(Relaxed) != 0
    }

    /// Whether this allocation fails.
    #[inline(always)]
    pub fn strikes(&self) -> bool {
        cfg!(debug_assertions) && self.is_planned() && self.count_down()
    }

    fn count_down(&self) -> bool {
        self.left.update(Relaxed, Relaxed, |left| left.checked_sub(1)) == Ok(1)
    }
}
