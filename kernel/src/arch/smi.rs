//! System management interrupts, for a self-test: a CPU that waits in `hlt` goes on behind it, and no handler
//! of the kernel has run.
//!
//! The CPU enters system management mode at its SMBASE + 0x8000; SMBASE is 0x30000 after reset, and firmware
//! moves it for the boot CPU at most. Source: Intel SDM volume 3, chapter 32.

use super::{apic, space};
use interleaf::units::PhysAddr;

/// Where a CPU enters the mode.
const ENTRY: PhysAddr = PhysAddr(0x3_8000);
/// The instruction `rsm`, which returns from the mode.
const RSM: [u8; 2] = [0x0f, 0xaa];

/// Puts a handler into place that returns at once.
pub fn prepare() {
    // SAFETY: RAM of the first MiB, which the library does not get, and which nothing but a CPU in the mode
    // uses: the trampoline lies below.
    unsafe { space::window(ENTRY).cast::<[u8; 2]>().write_volatile(RSM) };
}

/// Sends one to the CPU whose interrupt controller has this number.
pub fn send(to: u32) {
    apic::send_smi(to);
}
