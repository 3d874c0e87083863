//! Registration of the functions that a machine calls: for an interrupt, and for its helpers.
//!
//! A machine keeps one [`Callback`] for each [`Event`]: a function and a word for it. [`Registration`] makes
//! that safe: the handler's state lies in the machine's own memory, where the callback can always find it,
//! and the handler is unregistered when the registration is dropped.
//!
//! The place has one owner, the registration that filled it. Another one is refused
//! ([`RegisterError::Taken`]), also where the first was leaked; so what is dropped removes its own handler
//! and no other.
//!
//! Why a registration that is leaked does no harm: the machine then calls the handler as long as it lives,
//! after everything that was borrowed has ended. The state holds nothing that could end before: it is made by
//! [`Handler::carve`], which works for memory of any lifetime `'x`, so all that the state can borrow is what
//! was carved there. And what is carved lasts as long as the machine ([`MachineMemory`]).

use super::{Carve, MachineMemory, carve_value};
use crate::machine::{Callback, Cpu, Machine};
use core::fmt;
use core::marker::PhantomData;
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

/// A function that a machine calls, and its state.
pub trait Handler<M: Machine>: 'static {
    /// The state. `'x` is the life of the memory that it is carved from.
    type State<'x>: Sync;
    /// The event that it handles.
    const EVENT: Event;

    /// The state for `machine`. `None` if the memory does not suffice.
    fn carve<'x>(from: &mut impl Carve<'x>, machine: &M) -> Option<Self::State<'x>>;

    /// The same state, seen for a shorter life: returns its argument.
    fn shorten<'a, 's, 'l: 's>(state: &'a Self::State<'l>) -> &'a Self::State<'s>;

    /// Handles one event, on the CPU where it occurred.
    fn handle(state: &Self::State<'_>, machine: &M);

    /// Called before the handler is unregistered: calls of [`handle`](Handler::handle) that wait for
    /// something return, and later ones return at once.
    fn stop(state: &Self::State<'_>) {
        let _ = state;
    }
}

/// Why a handler is not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The memory does not suffice for its state, or does not last as long as the machine.
    NoMemory,
    /// The machine has a handler of that event, of a registration that was not dropped.
    Taken,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RegisterError::NoMemory => "no memory for a handler that lasts as long as the machine",
            RegisterError::Taken => "the machine has a handler of that event, which is another owner's",
        })
    }
}

impl core::error::Error for RegisterError {}

/// A handler registered until this is dropped, its state in the machine's own memory.
pub struct Registration<'m, M: Machine, H: Handler<M>> {
    machine: &'m M,
    /// A `H::State`, for the life of the machine.
    state: NonNull<()>,
    _handler: PhantomData<fn() -> H>,
}

// SAFETY: a handle to a state, which is `Sync`, and a `&M`, `M: Sync`.
unsafe impl<M: Machine, H: Handler<M>> Sync for Registration<'_, M, H> {}
// SAFETY: the state is only shared, and stays in place.
unsafe impl<M: Machine, H: Handler<M>> Send for Registration<'_, M, H> {}

impl<'m, M: Machine, H: Handler<M>> Registration<'m, M, H> {
    /// Makes a handler in carved memory and registers it for its event. The state is never dropped.
    ///
    /// # Errors
    /// Where the memory does not suffice or last, and where the machine has a handler of that event. What was
    /// carved stays so.
    pub fn register(machine: &'m M, from: &mut impl MachineMemory<'m, M>) -> Result<Self, RegisterError> {
        if !from.outlives(machine) {
            return Err(RegisterError::NoMemory);
        }
        let state = H::carve(from, machine).ok_or(RegisterError::NoMemory)?;
        let state = carve_value(from, state).ok_or(RegisterError::NoMemory)?;
        let state = NonNull::from(state).cast::<()>();
        let data = state.as_ptr().expose_provenance();
        let callback = Callback { call: call::<M, H>, data };
        // SAFETY: `call` may be called with this data, in any place: it is the address of a state in memory
        // that lasts as long as the machine, as `outlives` has said.
        let is_set = unsafe { set(machine, H::EVENT, Some(callback)) };
        if !is_set && !mutant!("handler.refusal-ignored") {
            return Err(RegisterError::Taken);
        }
        Ok(Self { machine, state, _handler: PhantomData })
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }
}

/// Sets or clears the machine's callback for `event`; false where another one is set.
///
/// # Safety
/// As for [`Machine::set_interrupt_handler`].
unsafe fn set<M: Machine>(machine: &M, event: Event, callback: Option<Callback<M>>) -> bool {
    match event {
        // SAFETY: the caller's promise is the same, here and below.
        Event::Interrupt => unsafe { machine.set_interrupt_handler(callback) },
        // SAFETY: as above.
        Event::Helper => unsafe { machine.set_helper_handler(callback) },
    }
}

/// # Safety
/// `data` is the exposed address of a state of `H` in memory that lasts as long as the machine.
unsafe fn call<M: Machine, H: Handler<M>>(machine: &M, data: usize) {
    let state = core::ptr::with_exposed_provenance::<H::State<'_>>(data);
    // SAFETY: by this function's contract; the state is only ever shared. `handle` works for a state of any
    // life, and so does nothing else with this one, whose life is the machine's memory's.
    let state = unsafe { &*state };
    match H::EVENT {
        Event::Interrupt => as_handler::<M::Cpu, _>(|| H::handle(state, machine)),
        Event::Helper => H::handle(state, machine),
    }
}

/// Calls `f` as a handler of interrupts: the thread's context says so until it returns or unwinds.
pub(super) fn as_handler<C: Cpu, R>(f: impl FnOnce() -> R) -> R {
    /// Restores what the context said.
    struct HandlerEnds<C: Cpu>(bool, PhantomData<fn() -> C>);
    impl<C: Cpu> Drop for HandlerEnds<C> {
        fn drop(&mut self) {
            C::with_context(|context| context.note_handler(self.0));
        }
    }
    let _restore = HandlerEnds::<C>(C::with_context(|context| context.note_handler(true)), PhantomData);
    f()
}

impl<'m, M: Machine, H: Handler<M>> Deref for Registration<'m, M, H> {
    type Target = H::State<'m>;
    fn deref(&self) -> &H::State<'m> {
        // SAFETY: `register` has initialised it, in memory that lasts for `'m` and longer, and it is only
        // ever shared. `shorten` works for a state of any life `'l` from `'m` on, and so does the same with
        // this one, whose life is `'m` or longer.
        H::shorten(unsafe { self.state.cast::<H::State<'m>>().as_ref() })
    }
}

impl<M: Machine, H: Handler<M>> Drop for Registration<'_, M, H> {
    fn drop(&mut self) {
        H::stop(self);
        // SAFETY: no function is set. It is this registration's that is removed, which was not refused: as
        // long as it is set the machine takes no other (rule 7 of `Machine`).
        let _removed = unsafe { set(self.machine, H::EVENT, None) };
    }
}

impl<M: Machine, H: Handler<M>> fmt::Debug for Registration<'_, M, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration for {:?}", H::EVENT)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "tests/handler.rs"]
mod tests;
