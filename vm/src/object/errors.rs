//! Errors of writing back, each of which is reported once to each handle that asks.
//!
//! As in Linux (`errseq_t`): an error that no cursor has reported yet is reported by cursors that are made
//! after it, too, so that none is lost where nothing was open; and errors that come before the last one was
//! reported are one.

use crate::machine::Cpu;
use crate::sync::atomic::{AtomicU64, Ordering::*};

/// Bit 0: the last error was reported. Above: their number.
#[derive(Debug)]
pub(crate) struct ErrorCount<C: Cpu>(AtomicU64<C>);

/// How far an open handle has come in reporting the errors of its object. Made by
/// [`ObjectHandle::error_cursor`](crate::space::ObjectHandle::error_cursor).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ErrorCursor(u64);

const REPORTED: u64 = 1;
const ERROR: u64 = 2;

impl<C: Cpu> ErrorCount<C> {
    /// None.
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(REPORTED))
    }

    /// Counts an error, unless the last one was not reported yet.
    pub(crate) fn count(&self) {
        let step = |word: u64| (word & REPORTED != 0).then_some((word & !REPORTED).wrapping_add(ERROR));
        // An error that nothing has reported is this one, too.
        let _is_new = self.0.update(AcqRel, Relaxed, step);
    }

    /// A cursor that reports what comes from now on, and an error that was not reported.
    pub(crate) fn cursor(&self) -> ErrorCursor {
        let word = self.0.load(Acquire);
        ErrorCursor(if word & REPORTED != 0 { word & !REPORTED } else { word.wrapping_sub(ERROR) })
    }

    /// Whether there is an error that the cursor has not reported; it has then.
    pub(crate) fn report(&self, cursor: &mut ErrorCursor) -> bool {
        let number = self.0.load(Acquire) & !REPORTED;
        if number == cursor.0 {
            return false;
        }
        if !mutant!("errors.reported-again") {
            cursor.0 = number;
        }
        let step = |word: u64| (word & !REPORTED == number).then_some(word | REPORTED);
        // Another one has come since, which the next call reports.
        let _is_last = self.0.update(AcqRel, Relaxed, step);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::ErrorCount;
    use crate::machine::testing::TestCpu;

    #[test]
    fn each_cursor_reports_each_error_once_and_one_that_nothing_has_reported_is_not_lost() {
        let errors = ErrorCount::<TestCpu>::new();
        let mut first = errors.cursor();
        assert!(!errors.report(&mut first));
        errors.count();
        let mut second = errors.cursor();
        assert_eq!([errors.report(&mut first), errors.report(&mut first)], [true, false]);
        assert_eq!([errors.report(&mut second), errors.report(&mut second)], [true, false]);
        let mut third = errors.cursor();
        assert!(!errors.report(&mut third), "it was reported before the cursor was made");
        errors.count();
        errors.count();
        for cursor in [&mut first, &mut second, &mut third] {
            assert_eq!([errors.report(cursor), errors.report(cursor)], [true, false]);
        }
    }
}
