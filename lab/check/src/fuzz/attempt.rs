//! Playing a case that may panic.
//!
//! A panic leaves thread-locals of the soft machine behind (locks that are held, read sections), so a failed
//! case is never followed by another on the same thread: shortening plays each attempt on a thread of its
//! own.

use super::Group;
use crate::compare::leave_out;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;
use std::thread;

thread_local! {
    /// Whether a panic of this thread is a result, and of which case.
    static QUIET: Cell<Option<(Group, u64)>> = const { Cell::new(None) };
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics of attempts are kept instead of printed. A second one before the first has been caught ends the
/// process: it is printed, with the case.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let Some((group, seed)) = QUIET.get() else { return before(info) };
            MESSAGE.with_borrow_mut(|message| {
                if !message.is_empty() {
                    eprintln!("{message}\nthen, in case {seed} of {}:\n{info}", group.name());
                }
                *message = info.to_string();
            });
        }));
    });
}

/// What `play` returns; a panic is an error with its message and place.
pub(super) fn attempt<T>(case: (Group, u64), play: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    install_hook();
    QUIET.set(Some(case));
    MESSAGE.take();
    let result = catch_unwind(AssertUnwindSafe(play));
    QUIET.set(None);
    result.unwrap_or_else(|_| Err(MESSAGE.take()))
}

/// Why `play` fails on a thread of its own, if it does.
pub(super) fn failure<T>(
    case: (Group, u64),
    play: impl FnOnce() -> Result<T, String> + Send,
) -> Option<String> {
    let apart = || attempt(case, || play().map(drop)).err();
    thread::scope(|scope| scope.spawn(apart).join()).unwrap_or_else(|_| Some("a second panic".into()))
}

/// Most attempts at shortening a case.
const ATTEMPTS: usize = 2000;

/// Leaves out items while `why` says that the rest fails; returns the rest and why it fails.
pub(super) fn shorten<T: Clone>(
    items: &[T],
    mut why: impl FnMut(&[T]) -> Option<String>,
) -> (Vec<T>, String) {
    let mut best = items.to_vec();
    let mut last = why(&best).unwrap_or_else(|| "it does not fail again".into());
    let mut left = ATTEMPTS;
    leave_out(&mut best, &mut |fewer: &[T]| {
        left = left.saturating_sub(1);
        let failed = if left == 0 { None } else { why(fewer) };
        failed.map(|text| last = text).is_some()
    });
    (best, last)
}
