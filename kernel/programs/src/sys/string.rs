//! C's functions on memory, which `core` calls by name. Each is one repeating instruction, so that the
//! compiler does not turn a loop in it into a call of itself.

use core::arch::asm;

/// Copies `length` bytes.
///
/// # Safety
///
/// As C's `memcpy`.
// SAFETY: nothing else in a program bears the name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: copies upwards, exactly `length` bytes, which our caller owns on both sides.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack));
    }
    to
}

/// Copies `length` bytes between places that may overlap.
///
/// # Safety
///
/// As C's `memmove`.
// SAFETY: nothing else in a program bears the name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= length {
        // SAFETY: upwards no byte is written before it is read, as `to` does not lie inside of what is
        // copied.
        return unsafe { memcpy(to, from, length) };
    }
    // SAFETY: copies downwards from the last byte, exactly `length` bytes, and leaves the direction as the
    // ABI has it.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") length => _,
            inout("rdi") to.wrapping_add(length).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(length).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// Fills `length` bytes.
///
/// # Safety
///
/// As C's `memset`.
// SAFETY: nothing else in a program bears the name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, length: usize) -> *mut u8 {
    // SAFETY: writes exactly `length` bytes, which our caller owns.
    unsafe {
        asm!("rep stosb", inout("rcx") length => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack));
    }
    to
}

/// Compares `length` bytes.
///
/// # Safety
///
/// As C's `memcmp`.
// SAFETY: nothing else in a program bears the name.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    for at in 0..length {
        // SAFETY: `at` is below `length`, and our caller may read that many bytes on both sides. Volatile, so
        // that the compiler does not turn the loop into a call of `memcmp`.
        let (l, r) = unsafe { (left.add(at).read_volatile(), right.add(at).read_volatile()) };
        if l != r {
            return i32::from(l) - i32::from(r);
        }
    }
    0
}

/// Compares `length` bytes for equality.
///
/// # Safety
///
/// As C's `bcmp`.
// SAFETY: nothing else in a program bears the name.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(left, right, length) }
}

/// The length of a string.
///
/// # Safety
///
/// As C's `strlen`.
// SAFETY: nothing else in a program bears the name.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: no byte behind the terminating one is read. Volatile, as in `memcmp`.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}
