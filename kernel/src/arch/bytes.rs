//! Functions that compiled code calls to move and compare bytes, and two names that it mentions although
//! nothing unwinds. On a hosted target these come from the C library, which a kernel does not have.
//!
//! Moving and filling is assembly, `bytes.s`: the compiler would turn a Rust loop over bytes into a call of
//! the function itself.

use core::arch::global_asm;

global_asm!(include_str!("bytes.s"), options(att_syntax));

/// # Safety
/// As C's: both are valid for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for at in 0..len {
        // SAFETY: the caller's promise. Volatile, so that the compiler does not turn the loop into a call of
        // this function.
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
