//! Accesses to frames as a device makes them, beside CPUs that read and write the same bytes: by instructions
//! that the compiler knows nothing of, so that they race with no access of Rust's.

use std::ptr::NonNull;

/// Copies bytes out of memory that others may write meanwhile: each as it was before or after.
///
/// # Safety
/// `to.len()` bytes from `from` on are mapped to be read.
pub(super) unsafe fn copy_out(from: NonNull<u8>, to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads as many bytes as there are from `from`, which are mapped as the caller
    // says, and writes those of `to`. It leaves the direction flag clear, as the ABI has it.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") to.len() => _, inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_mut_ptr() => _, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for (at, byte) in to.iter_mut().enumerate() {
        // SAFETY: mapped, as the caller says.
        *byte = unsafe { from.add(at).as_ptr().read_volatile() };
    }
}

/// Copies bytes that others may write meanwhile: each as it was before or after.
///
/// # Safety
/// `len_bytes` bytes from `from` on are mapped to be read, and from `to` on to be written; no Rust code
/// borrows from the latter.
pub(super) unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, len_bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads and writes these bytes, as the caller allows, and nothing else.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") len_bytes => _, inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_ptr() => _, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for at in 0..len_bytes {
        // SAFETY: mapped, as the caller says.
        unsafe { to.add(at).as_ptr().write_volatile(from.add(at).as_ptr().read_volatile()) };
    }
}

/// Zeroes bytes that others may read and write meanwhile.
///
/// # Safety
/// `len_bytes` bytes from `at` on are mapped to be written, and no Rust code borrows from them.
pub(super) unsafe fn zero(at: NonNull<u8>, len_bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction writes these bytes, which are the caller's to write, and nothing else.
    unsafe {
        std::arch::asm!("rep stosb", inout("rcx") len_bytes => _, inout("rdi") at.as_ptr() => _, in("al") 0u8,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    for offset in 0..len_bytes {
        // SAFETY: mapped, as the caller says.
        unsafe { at.add(offset).as_ptr().write_volatile(0) };
    }
}
