//! Fault injection: the n-th allocation from now fails, and perhaps some after it, so that tests can fail
//! every one in turn. (Linux: `fail_page_alloc`.)
//!
//! Debug builds only; in release builds [`Mishap::strikes`] is `false` and costs nothing.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};

/// Counts allocations down to an injected failure.
///
/// | bits | holds |
/// |---|---|
/// | 0..31 | allocations until the next failure, that one included; 0: no failure is planned any more |
/// | 31..62 | failures in a row, that one included |
/// | 62 | one has struck |
#[derive(Debug)]
pub(super) struct Mishap<C: Cpu> {
    /// Relaxed: only a count.
    plan: AtomicU64<C>,
}

const LEFT: u64 = (1 << 31) - 1;
const IN_A_ROW: u64 = 1 << 31;
const STRUCK: u64 = 1 << 62;

impl<C: Cpu> Mishap<C> {
    /// No failure is planned.
    pub const fn new() -> Self {
        Self { plan: AtomicU64::new(0) }
    }

    /// Plans `in_a_row` failures, beginning with the `left`th allocation from now; 0 cancels them.
    pub fn plan(&self, left: u64, in_a_row: u64) {
        self.plan.store(left.min(LEFT) | (in_a_row.min(LEFT) * IN_A_ROW), Relaxed);
    }

    /// Whether a planned failure has not struck yet.
    pub fn is_planned(&self) -> bool {
        let plan = self.plan.load(Relaxed);
        plan & LEFT != 0 && plan & STRUCK == 0
    }

    /// Whether a planned failure has struck, and was not cancelled since.
    #[inline(always)]
    pub fn has_struck(&self) -> bool {
        cfg!(debug_assertions) && self.plan.load(Relaxed) & STRUCK != 0
    }

    /// Whether this allocation fails.
    #[inline(always)]
    pub fn strikes(&self) -> bool {
        cfg!(debug_assertions) && self.plan.load(Relaxed) & LEFT != 0 && self.count_down()
    }

    /// As [`strikes`](Self::strikes), for an object of a slab pool: only the first failure in a row applies,
    /// as a free object can be allocated again whether or not there is memory.
    #[inline(always)]
    pub fn strikes_object(&self) -> bool {
        let untroubled = |plan| plan & LEFT == 0 || plan & STRUCK != 0;
        cfg!(debug_assertions) && !untroubled(self.plan.load(Relaxed)) && self.count_down()
    }

    fn count_down(&self) -> bool {
        self.plan.update(Relaxed, Relaxed, counted_down).is_ok_and(|plan| plan & LEFT == 1)
    }
}

/// The plan after one allocation more.
fn counted_down(plan: u64) -> Option<u64> {
    match plan & LEFT {
        0 => None,
        1 if (plan / IN_A_ROW) & LEFT > 1 => Some((plan - IN_A_ROW) | STRUCK),
        1 => Some(STRUCK),
        _ => Some(plan - 1),
    }
}

#[cfg(test)]
#[path = "tests/mishap.rs"]
mod tests;
