//! A handler of NMIs that comes at one access, wherever that is: in the middle of a fault, of a flush, of RCU
//! itself, with interrupts off or on.
//!
//! Accesses through the door are where a handler can meet words half changed: between two of them the
//! interrupted code changes nothing that others read.

use interleaf::sync::with_interrupts_off;
use std::cell::{Cell, RefCell};

use super::Watch;

type Handler = Box<dyn FnOnce()>;

thread_local! {
    /// Accesses left; 0: none is waited for.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
}

/// Runs `f`, and `handler` before the access of that number that this thread makes meanwhile, from 1 on; with
/// interrupts off, as an NMI. Returns what `f` does, and whether it came to that access.
pub fn with_nmi_at<R>(number: u64, handler: impl FnOnce() + 'static, f: impl FnOnce() -> R) -> (R, bool) {
    HANDLER.set(Some(Box::new(handler)));
    LEFT.set(number);
    let result = f();
    LEFT.set(0);
    (result, HANDLER.take().is_none())
}

/// An access is about to be made.
#[inline]
pub(super) fn note_access() {
    let left = LEFT.get();
    if left > 0 {
        LEFT.set(left - 1);
        if left == 1 {
            come();
        }
    }
}

#[cold]
fn come() {
    if let Some(handler) = HANDLER.take() {
        with_interrupts_off::<Watch, _>(handler);
    }
}
