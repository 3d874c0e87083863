//! What the machine's helpers run, kept where they can always find it.

use super::Carve;
use crate::machine::{Answer, Machine};
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

/// What a helper does with its life; see [`Machine::set_help`].
pub trait Help<M>: Sync + 'static {
    /// A helper's life, on its CPU. Returns once it is dismissed.
    fn help(&self, machine: &M);
    /// Has all helpers return, and makes those return at once that have not begun.
    fn dismiss(&self);
}

/// A program in the machine's own memory, run by its helpers until this is dropped.
pub struct Enlisted<'m, M: Machine, T: Help<M>> {
    machine: &'m M,
    help: NonNull<T>,
}

// SAFETY: a handle to a `T: Sync` and a `&M`, `M: Sync`.
unsafe impl<M: Machine, T: Help<M>> Sync for Enlisted<'_, M, T> {}
// SAFETY: the program is only shared, and stays in place.
unsafe impl<M: Machine, T: Help<M>> Send for Enlisted<'_, M, T> {}

impl<'m, M: Machine, T: Help<M>> Enlisted<'m, M, T> {
    /// Moves `help` into carved memory of `machine` and has the helpers run it. `None` where the memory does
    /// not suffice. It is never dropped.
    pub fn enlist(machine: &'m M, from: &mut impl Carve, help: T) -> Option<Self> {
        let place = from.carve(size_of::<T>(), align_of::<T>())?.cast::<T>();
        // SAFETY: carved memory is large enough, aligned, and nobody else's.
        unsafe { place.write(help) };
        let data = place.as_ptr().expose_provenance();
        machine.set_help(Some(Answer { call: run::<M, T>, data }));
        Some(Self { machine, help: place })
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }
}

/// # Safety
/// `data` is the exposed address of a `T` in memory of `machine`, which carved memory stays as long as the
/// machine does.
unsafe fn run<M, T: Help<M>>(machine: &M, data: usize) {
    let help = core::ptr::with_exposed_provenance::<T>(data);
    // SAFETY: by this function's contract; the program is only ever shared.
    unsafe { &*help }.help(machine);
}

impl<M: Machine, T: Help<M>> Deref for Enlisted<'_, M, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the place was initialised by `enlist` and is only ever shared.
        unsafe { self.help.as_ref() }
    }
}

impl<M: Machine, T: Help<M>> Drop for Enlisted<'_, M, T> {
    fn drop(&mut self) {
        self.dismiss();
        self.machine.set_help(None);
    }
}

impl<M: Machine, T: Help<M>> fmt::Debug for Enlisted<'_, M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Enlisted")
    }
}
