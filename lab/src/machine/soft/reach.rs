//! Where a machine is, for the answer that its interrupts run.

/// The machine's address.
pub(super) struct Reach<M>(pub(super) *const M);

impl<M> Reach<M> {
    pub(super) fn get(&self) -> *const M {
        self.0
    }
}

// SAFETY: an address; following it is the answer's matter, and machines are `Sync`.
unsafe impl<M: Sync> Send for Reach<M> {}
// SAFETY: as above.
unsafe impl<M: Sync> Sync for Reach<M> {}
