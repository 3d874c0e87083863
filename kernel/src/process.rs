//! A program in ring 3.

use crate::arch::trap::Frame;
use interleaf::space::FaultError;
use interleaf::units::VirtAddr;
use interleaf_kernel::options::Options;

/// Runs a program and returns its exit code.
pub fn run(_file: &[u8], _options: &Options<'_>) -> u8 {
    1
}

/// A program raised an exception.
pub fn exception(_frame: &mut Frame) {}

/// A program's page fault could not be resolved.
pub fn fault_failed(_frame: &mut Frame, _address: VirtAddr, _error: FaultError) {}

/// A thread of a program is about to go back to ring 3.
pub fn leaving_kernel() {}
