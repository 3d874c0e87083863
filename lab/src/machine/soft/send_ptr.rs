//! Address of a machine, for its interrupt handler.

/// The machine's address.
pub(super) struct SendPtr<M>(pub(super) *const M);

impl<M> SendPtr<M> {
    pub(super) fn get(&self) -> *const M {
        self.0
    }
}

// SAFETY: an address; the handler dereferences it under its own SAFETY note, and machines are `Sync`.
unsafe impl<M: Sync> Send for SendPtr<M> {}
// SAFETY: as above.
unsafe impl<M: Sync> Sync for SendPtr<M> {}
