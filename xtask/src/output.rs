//! What the chores print: `print` and `println` as std has them, but where the reader of stdout has gone
//! (`cargo xtask width | head -1`), the program ends quietly. std's panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};

/// Writes to stdout at once.
///
/// # Panics
/// If stdout cannot be written though it has a reader.
pub fn write(text: Arguments<'_>) {
    let mut stdout = stdout().lock();
    match stdout.write_fmt(text).and_then(|()| stdout.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => panic!("stdout cannot be written: {error}"),
    }
}

/// As std's, by [`write()`].
macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// As std's, by [`write()`].
macro_rules! println {
    ($($text:tt)*) => { print!("{}\n", format_args!($($text)*)) };
}
