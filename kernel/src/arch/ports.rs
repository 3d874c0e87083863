//! Port I/O.

use core::arch::asm;

/// Writes a byte.
///
/// # Safety
/// The device behind the port changes no memory that running code relies on.
pub unsafe fn write_u8(port: u16, value: u8) {
    // SAFETY: the caller knows the device.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) }
}

/// Writes two bytes.
///
/// # Safety
/// As [`write_u8`].
pub unsafe fn write_u16(port: u16, value: u16) {
    // SAFETY: the caller knows the device.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags)) }
}

/// Writes four bytes.
///
/// # Safety
/// As [`write_u8`].
pub unsafe fn write_u32(port: u16, value: u32) {
    // SAFETY: the caller knows the device.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags)) }
}

/// Reads a byte.
///
/// # Safety
/// As [`write_u8`]: reading may have effects too.
pub unsafe fn read_u8(port: u16) -> u8 {
    let value;
    // SAFETY: the caller knows the device.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) }
    value
}
