//! Printing a line, and ending the program when a check does not hold.

use crate::sys::{self, Errno};
use core::fmt::{self, Write};

/// Most bytes of a line; longer lines are cut.
const LINE_BYTES: usize = 240;

/// A line that is formatted before it is written, so that lines of threads do not mix.
struct Line {
    bytes: [u8; LINE_BYTES],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LINE_BYTES - 1 - self.length;
        let taken = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.length..self.length + taken.len()].copy_from_slice(taken);
        self.length += taken.len();
        Ok(())
    }
}

/// Writes one line to the console.
pub fn say(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; LINE_BYTES], length: 0 };
    // A line that does not fit is cut; nothing else can fail.
    let _ = line.write_fmt(text);
    line.bytes[line.length] = b'\n';
    sys::write(&line.bytes[..=line.length]);
}

/// Prints the check that does not hold, and ends the program with every thread.
pub fn broken(what: fmt::Arguments<'_>) -> ! {
    say(format_args!("BROKEN: {what}"));
    sys::exit_group(crate::BROKEN)
}

/// The result of a call that must not be refused; ends the program if it was.
pub fn granted<T>(what: &str, answer: Result<T, Errno>) -> T {
    match answer {
        Ok(value) => value,
        Err(Errno(number)) => {
            say(format_args!("REFUSED: {what}: errno {number}"));
            sys::exit_group(crate::REFUSED)
        }
    }
}

/// Prints a line, as `println!` does.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::say::say(format_args!($($text)*)) };
}

/// Ends the program with the text unless the condition holds.
#[macro_export]
macro_rules! holds {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            $crate::say::broken(format_args!($($text)*));
        }
    };
}
