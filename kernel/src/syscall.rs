//! System calls.

use crate::arch::trap::Frame;

/// Carries out a call.
pub fn call(frame: &mut Frame) -> bool {
    frame.rax = -38i64 as u64;
    false
}
