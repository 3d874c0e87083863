//! Where a machine is, for the answer that its interrupts run.

/// The machine's address.
pub(super) struct SendPtr<M>(pub(super) *const M);

impl<M> SendPtr<M> {
    pub(super) fn get(&self) -> *const M {
        self.0
    }
}

// SAFETY: an address; following it is the answer's matter, and machines are `Sync`.
unsafe impl<M: Sync> Send for SendPtr<M> {}
// SAFETY: as above.
unsafe impl<M: Sync> Sync for SendPtr<M> {}
