//! What compiled code calls to move and compare bytes, and two names that it mentions although nothing unwinds. On a hosted
//! target these come from the C library, which a kernel does not have.
//!
//! `rep movsb` and `rep stosb` are what CPUs of the last decade do fastest for whole frames; for a handful of bytes a loop
//! would be as good. Nothing here may be written as a Rust loop over bytes: the compiler would make a call of `memcpy` of it.

use core::arch::asm;

/// # Safety
/// As C's: `to` and `from` are valid for `len` bytes and do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear everywhere in the kernel.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
             options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's: `to` and `from` are valid for `len` bytes; they may overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= len {
        // SAFETY: ascending is right where `to` does not lie inside of the source; the caller's promise otherwise.
        return unsafe { memcpy(to, from, len) };
    }
    let (last_to, last_from) = (to.wrapping_add(len).wrapping_sub(1), from.wrapping_add(len).wrapping_sub(1));
    // SAFETY: the caller's promise; descending, because the end of the source lies inside of `to`. The flag is clear again.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") len => _, inout("rdi") last_to => _,
             inout("rsi") last_from => _, options(nostack));
    }
    to
}

/// # Safety
/// As C's: `to` is valid for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear everywhere in the kernel.
    unsafe {
        asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8,
             options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's: both are valid for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for at in 0..len {
        // SAFETY: the caller's promise. Volatile, so that the loop is not made a call of this very function.
        let (x, y) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// As [`memcmp`].
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, len) }
}

/// # Safety
/// As C's: `text` ends with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: every byte up to the zero is valid.
    while unsafe { text.add(len).read_volatile() } != 0 {
        len += 1;
    }
    len
}

/// Named by the prebuilt core's unwind tables; never called, as panics abort.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
