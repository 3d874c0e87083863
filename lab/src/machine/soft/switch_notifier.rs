//! What a task does to its address space when it gives up its CPU and when it has one again, known to its
//! thread for as long as a call runs.

use std::cell::Cell;
use std::mem::transmute;

/// What a task does to its address space when it gives up its CPU and when it has one again.
pub trait SwitchNotifier {
    /// The task is about to give up the CPU that it runs on.
    fn sched_out(&self);
    /// The task runs on a CPU again.
    fn sched_in(&self);
}

thread_local!(static SWITCH: Cell<Option<&'static dyn SwitchNotifier>> = const { Cell::new(None) });

/// Puts back what was installed before, however the call ends.
struct Restore(Option<&'static dyn SwitchNotifier>);

impl Drop for Restore {
    fn drop(&mut self) {
        SWITCH.set(self.0);
    }
}

/// Runs `f`; whenever this thread gives up its CPU meanwhile, `switch` is notified.
pub fn with_switch_notifier<R>(switch: &dyn SwitchNotifier, f: impl FnOnce() -> R) -> R {
    // SAFETY: only the lifetime changes. The reference stays in this module's thread-local, from where only
    // `installed` borrows it, on this thread, for the length of a call that runs inside of `f`; and it is
    // taken out before this call returns or unwinds, thus while the borrow that we were given still lasts.
    let lasting = unsafe { transmute::<&dyn SwitchNotifier, &'static dyn SwitchNotifier>(switch) };
    let _restore = Restore(SWITCH.replace(Some(lasting)));
    f()
}

/// Calls `f` with the notifier installed on this thread. `f` cannot keep it: it must take a reference of any
/// lifetime.
pub(crate) fn installed<R>(f: impl for<'a> FnOnce(Option<&'a dyn SwitchNotifier>) -> R) -> R {
    f(SWITCH.get())
}

#[cfg(test)]
#[path = "tests/switch_notifier.rs"]
mod tests;
