//! What a task does to its address space when it gives up its CPU and when it has one again, known to its
//! stack for as long as a call runs.

use crate::os::fiber;
use std::cell::RefCell;
use std::mem::transmute;

/// What a task does to its address space when it gives up its CPU and when it has one again.
pub trait SwitchNotifier {
    /// The task is about to give up the CPU that it runs on.
    fn sched_out(&self);
    /// The task runs on a CPU again.
    fn sched_in(&self);
}

/// A notifier, and the stack that the call runs on for which it is installed.
type NotifierOfStack = (u64, &'static dyn SwitchNotifier);

thread_local! {
    /// Those of all calls under way on this thread, each stack's in the order in which they began.
    static INSTALLED: RefCell<Vec<NotifierOfStack>> = const { RefCell::new(Vec::new()) };
}

/// Takes the last notifier of a stack out, however the call ends.
struct TakeOut(u64);

impl Drop for TakeOut {
    fn drop(&mut self) {
        INSTALLED.with_borrow_mut(|installed| {
            let last = installed.iter().rposition(|&(stack, _)| stack == self.0);
            last.map(|last| installed.remove(last));
        });
    }
}

/// Runs `f`; whenever this stack gives up its CPU meanwhile, `switch` is notified. Each fiber of a thread has
/// notifiers of its own.
pub fn with_switch_notifier<R>(switch: &dyn SwitchNotifier, f: impl FnOnce() -> R) -> R {
    // SAFETY: only the lifetime changes. The reference stays in this module's list, from where only
    // `installed` borrows it, on this stack, for the length of a call that runs inside of `f`; and it is
    // taken out before this call returns or unwinds, thus while the borrow that we were given still lasts:
    // calls on one stack end in the reverse of the order in which they began, so the last of this stack is
    // this one.
    let lasting = unsafe { transmute::<&dyn SwitchNotifier, &'static dyn SwitchNotifier>(switch) };
    let stack = fiber::current_stack();
    INSTALLED.with_borrow_mut(|installed| installed.push((stack, lasting)));
    let _take_out = TakeOut(stack);
    f()
}

/// Calls `f` with the notifier installed last on this stack. `f` cannot keep it: it must take a reference of
/// any lifetime.
pub(crate) fn installed<R>(f: impl for<'a> FnOnce(Option<&'a dyn SwitchNotifier>) -> R) -> R {
    let here = fiber::current_stack();
    let last =
        |installed: &Vec<NotifierOfStack>| installed.iter().rfind(|(stack, _)| *stack == here).copied();
    f(INSTALLED.with_borrow(last).map(|(_, switch)| switch))
}

#[cfg(test)]
#[path = "tests/switch_notifier.rs"]
mod tests;
