//! What a CPU does when another interrupts it, kept where the interrupt can always find it.

use super::Carve;
use crate::machine::{Answer, Machine};
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

/// Something that can answer an interrupt; see [`Answer`] for what it may not do.
pub trait Respond<M>: Sync + 'static {
    /// Runs on the interrupted CPU.
    fn respond(&self, machine: &M);
}

/// A responder in the machine's own memory, installed as its answer until this is dropped.
pub struct Installed<'m, M: Machine, T: Respond<M>> {
    machine: &'m M,
    responder: NonNull<T>,
}

// SAFETY: a handle to a `T: Sync` and a `&M`, `M: Sync`.
unsafe impl<M: Machine, T: Respond<M>> Sync for Installed<'_, M, T> {}
// SAFETY: the responder is only shared, and stays in place.
unsafe impl<M: Machine, T: Respond<M>> Send for Installed<'_, M, T> {}

impl<'m, M: Machine, T: Respond<M>> Installed<'m, M, T> {
    /// Moves `responder` into carved memory of `machine` and installs it. `None` where the memory does not
    /// suffice. The responder is never dropped.
    pub fn install(machine: &'m M, from: &mut impl Carve, responder: T) -> Option<Self> {
        let place = from.carve(size_of::<T>(), align_of::<T>())?.cast::<T>();
        // SAFETY: carved memory is large enough, aligned, and nobody else's.
        unsafe { place.write(responder) };
        let data = place.as_ptr().expose_provenance();
        machine.set_answer(Some(Answer { call: respond::<M, T>, data }));
        Some(Self { machine, responder: place })
    }
}

/// # Safety
/// `data` is the exposed address of a `T` in memory of `machine`, which carved memory stays as long as the
/// machine does.
unsafe fn respond<M, T: Respond<M>>(machine: &M, data: usize) {
    let responder = core::ptr::with_exposed_provenance::<T>(data);
    // SAFETY: by this function's contract; the responder is only ever shared.
    unsafe { &*responder }.respond(machine);
}

impl<M: Machine, T: Respond<M>> Deref for Installed<'_, M, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the place was initialised by `install` and is only ever shared.
        unsafe { self.responder.as_ref() }
    }
}

impl<M: Machine, T: Respond<M>> Drop for Installed<'_, M, T> {
    fn drop(&mut self) {
        self.machine.set_answer(None);
    }
}

impl<M: Machine, T: Respond<M>> fmt::Debug for Installed<'_, M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Installed")
    }
}
