//! Port I/O.

use core::arch::asm;

/// A port of a device.
#[derive(Debug)]
pub struct Port(u16);

impl Port {
    /// The port with this number.
    ///
    /// # Safety
    /// Whatever the value's users write to the port, and however often they read it, the device behind it
    /// changes no memory that running code relies on, and raises no interrupt.
    pub const unsafe fn new(number: u16) -> Self {
        Self(number)
    }

    /// Writes a byte.
    pub fn write_u8(&self, value: u8) {
        // SAFETY: the device changes nothing that code relies on (`new`).
        unsafe {
            asm!("out dx, al", in("dx") self.0, in("al") value, options(nomem, nostack, preserves_flags));
        }
    }

    /// Writes two bytes.
    pub fn write_u16(&self, value: u16) {
        // SAFETY: the device changes nothing that code relies on (`new`).
        unsafe {
            asm!("out dx, ax", in("dx") self.0, in("ax") value, options(nomem, nostack, preserves_flags));
        }
    }

    /// Writes four bytes.
    pub fn write_u32(&self, value: u32) {
        // SAFETY: the device changes nothing that code relies on (`new`).
        unsafe {
            asm!("out dx, eax", in("dx") self.0, in("eax") value, options(nomem, nostack, preserves_flags));
        }
    }

    /// Reads a byte.
    pub fn read_u8(&self) -> u8 {
        let value;
        // SAFETY: the device changes nothing that code relies on (`new`).
        unsafe {
            asm!("in al, dx", in("dx") self.0, out("al") value, options(nomem, nostack, preserves_flags));
        }
        value
    }
}
