//! A call with hostile arguments: it is noted, and may panic.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, Once};

static CALLED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static QUIET: Once = Once::new();

thread_local! {
    static EXPECTS_PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Calls `Type::function` or `module::function` with the arguments, and notes that it was called. `None`
/// where it panicked: a panic with a clear message is an answer, corrupted memory is not.
#[macro_export]
macro_rules! call {
    ($($path:ident)::+ $(, $argument:expr)* $(,)?) => {{
        $crate::call::note(stringify!($($path)::+));
        $crate::call::without_message(|| $($path)::+($($argument),*))
    }};
}

/// As [`call!`], for calls that are written otherwise: `called!(Type::function => expression)`.
#[macro_export]
macro_rules! called {
    ($($path:ident)::+ => $body:expr) => {{
        $crate::call::note_named_in(stringify!($($path)::+), stringify!($body));
        $crate::call::without_message(|| $body)
    }};
}

/// Notes that the function was called.
pub fn note(name: &str) {
    let name = name.chars().filter(|c| !c.is_whitespace()).collect();
    CALLED.lock().expect("nothing panics here").insert(name);
}

/// As [`note`], after a look at whether the expression names the function.
///
/// # Panics
/// If it does not: then the note would be a lie.
pub fn note_named_in(name: &str, body: &str) {
    let function = name.rsplit("::").next().unwrap_or(name).trim();
    let mut words = body.split(|c: char| !c.is_alphanumeric() && c != '_');
    assert!(words.any(|word| word == function), "`{body}` does not call {name}");
    note(name);
}

/// The functions that were called so far.
pub fn called() -> BTreeSet<String> {
    CALLED.lock().expect("nothing panics here").clone()
}

/// Runs `f`; `None` where it panics, without the message that a panic prints.
pub fn without_message<R>(f: impl FnOnce() -> R) -> Option<R> {
    QUIET.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // A panic in a panic aborts: with this variable its message is seen.
            if !EXPECTS_PANICS.get() || std::env::var_os("HOSTILE_LOUD").is_some() {
                usual(info);
            }
        }));
    });
    let before = EXPECTS_PANICS.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    EXPECTS_PANICS.set(before);
    result.ok()
}
