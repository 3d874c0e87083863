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

/// The mode has a handler that returns at once.
#[derive(Clone, Copy, Debug)]
pub struct Handler(());

impl Handler {
    /// Puts the handler into place.
    pub fn install() -> Self {
        // SAFETY: RAM of the first MiB, which `Loader::boot_map` keeps from the library; only a CPU in the
        // mode uses this part of it: the trampoline lies below. Whenever such a CPU fetches it, the bytes are
        // these.
        unsafe { space::window(ENTRY).cast::<[u8; 2]>().write_volatile(RSM) };
        Handler(())
    }

    /// Sends an interrupt to the CPU whose interrupt controller has this number.
    pub fn send(self, to: u32) {
        // SAFETY: the handler is `rsm`, or firmware's, which is made to be unnoticed.
        unsafe { apic::send_smi(to) };
    }
}
