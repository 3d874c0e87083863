//! futex(2): sleeping on a word.

use std::io;
use std::ptr::null;
use std::sync::atomic::AtomicU32;

/// Blocks the thread while `*word == expected`, until a [`wake`] of the same word; may return early.
pub fn wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the kernel reads the word, which the reference keeps alive; no timeout is given.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            null::<libc::timespec>(),
        )
    };
    let error = io::Error::last_os_error().raw_os_error();
    // EAGAIN: the word had changed; EINTR: a signal. Both are early returns.
    debug_assert!(answer == 0 || matches!(error, Some(libc::EAGAIN | libc::EINTR)), "futex: {error:?}");
}

/// Wakes up to `count` threads that wait on the word; says how many there were.
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    let count = count.min(i32::MAX as u32);
    // SAFETY: waking reads no memory: the address is only a name.
    let woken = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count)
    };
    usize::try_from(woken).unwrap_or(0)
}

#[cfg(test)]
#[path = "tests/futex.rs"]
mod tests;
