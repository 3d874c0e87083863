//! Registration of the functions that a machine calls: for an interrupt, and for its helpers.
//!
//! A machine keeps one [`Callback`] for each [`Event`]: a function and a word for it. [`Registration`] makes
//! that safe: the handler lies in the machine's own memory, where the callback can always find it, and is
//! unregistered when the registration is dropped.

use super::Carve;
use crate::machine::{Callback, Machine};
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

/// The event for which a machine calls a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another CPU has interrupted this one ([`Machine::interrupt`]). [`Callback`] lists the restrictions of
    /// such a handler.
    Interrupt,
    /// A helper begins ([`Machine::set_helper_handler`]). The handler returns once the helper is to end.
    Helper,
}

/// A function that a machine calls.
pub trait Handler<M>: Sync + 'static {
    /// The event that it handles.
    const EVENT: Event;

    /// Handles one event, on the CPU where it occurred.
    fn handle(&self, machine: &M);

    /// Called before the handler is unregistered: calls of [`handle`](Handler::handle) that wait for
    /// something return, and later ones return at once.
    fn stop(&self) {}
}

/// A handler in the machine's own memory, registered until this is dropped.
pub struct Registration<'m, M: Machine, T: Handler<M>> {
    machine: &'m M,
    handler: NonNull<T>,
}

// SAFETY: a handle to a `T: Sync` and a `&M`, `M: Sync`.
unsafe impl<M: Machine, T: Handler<M>> Sync for Registration<'_, M, T> {}
// SAFETY: the handler is only shared, and stays in place.
unsafe impl<M: Machine, T: Handler<M>> Send for Registration<'_, M, T> {}

impl<'m, M: Machine, T: Handler<M>> Registration<'m, M, T> {
    /// Moves `handler` into carved memory of `machine` and registers it. `None` if the memory does not
    /// suffice. The handler is never dropped.
    pub fn register(machine: &'m M, from: &mut impl Carve, handler: T) -> Option<Self> {
        let place = from.carve(size_of::<T>(), align_of::<T>())?.cast::<T>();
        // SAFETY: carved memory is large enough, aligned, and not in use otherwise.
        unsafe { place.write(handler) };
        let data = place.as_ptr().expose_provenance();
        set(machine, T::EVENT, Some(Callback { call: call::<M, T>, data }));
        Some(Self { machine, handler: place })
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }
}

/// Sets or clears the machine's callback for `event`.
fn set<M: Machine>(machine: &M, event: Event, callback: Option<Callback<M>>) {
    match event {
        Event::Interrupt => machine.set_interrupt_handler(callback),
        Event::Helper => machine.set_helper_handler(callback),
    }
}

/// # Safety
/// `data` is the exposed address of a `T` in carved memory of `machine`, which lasts as long as the machine.
unsafe fn call<M, T: Handler<M>>(machine: &M, data: usize) {
    let handler = core::ptr::with_exposed_provenance::<T>(data);
    // SAFETY: by this function's contract; the handler is only ever shared.
    unsafe { &*handler }.handle(machine);
}

impl<M: Machine, T: Handler<M>> Deref for Registration<'_, M, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the place was initialised by `register` and is only ever shared.
        unsafe { self.handler.as_ref() }
    }
}

impl<M: Machine, T: Handler<M>> Drop for Registration<'_, M, T> {
    fn drop(&mut self) {
        self.stop();
        set(self.machine, T::EVENT, None);
    }
}

impl<M: Machine, T: Handler<M>> fmt::Debug for Registration<'_, M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration for {:?}", T::EVENT)
    }
}
