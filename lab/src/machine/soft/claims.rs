//! Which memory of a machine was given to the library.

use interleaf::units::PfnRange;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Frames that were claimed; no two ranges overlap.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<Vec<PfnRange>>);

impl Claims {
    /// Claims `frames`, which are disjoint, if all lie in `memory` and none was claimed before.
    pub(super) fn claim(&self, memory: &[PfnRange], frames: &[PfnRange]) -> bool {
        let mut claims = self.lock();
        let is_memory = |range| memory.iter().any(|region| region.covers(range));
        let is_free = |range| is_memory(range) && !claims.iter().any(|claim| claim.overlaps(range));
        let all_free = frames.iter().all(|&range| is_free(range));
        if all_free {
            claims.extend_from_slice(frames);
        }
        all_free
    }

    /// The frames that were claimed; they stay as they are until the result is dropped.
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<PfnRange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
