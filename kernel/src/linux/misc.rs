//! Calls about everything else.

use super::CallResult;
use crate::arch::{Core, console, user};
use crate::task::{process, sched};
use interleaf::machine::Cpu;
use interleaf::units::VirtAddr;
use interleaf_linux_abi::Errno;
use interleaf_linux_abi::task::SIGSEGV;

/// Bytes printed at a time.
const CHUNK: usize = 256;

/// Everything is printed on the console.
pub fn write(file: u64, at: u64, len: u64) -> CallResult {
    if !matches!(file, 1 | 2) {
        return Err(Errno::EBADF);
    }
    let mut done = 0;
    while done < len {
        let mut chunk = [0; CHUNK];
        let part = (len - done).min(CHUNK as u64) as usize;
        match user::read(VirtAddr(at.wrapping_add(done)), &mut chunk[..part]) {
            Ok(()) => console::write(&chunk[..part]),
            Err(error) if done == 0 => return Err(error.into()),
            Err(_) => break,
        }
        done += part as u64;
    }
    Ok(done)
}

/// Only SIGSEGV is ever raised; handlers of other signals are accepted and ignored.
pub fn rt_sigaction(signal: u64, new: u64, old: u64) -> CallResult {
    const HANDLER_WORDS: usize = 4;
    const DEFAULT_OR_IGNORE: u64 = 1;
    if !(1..=64).contains(&signal) {
        return Err(Errno::EINVAL);
    }
    let (mut handler, mut restorer) = if signal == SIGSEGV { process::current().handler() } else { (0, 0) };
    if old != 0 {
        let words = [handler, 0, restorer, 0];
        let mut bytes = [0; 8 * HANDLER_WORDS];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        user::write(VirtAddr(old), &bytes)?;
    }
    if new != 0 && signal == SIGSEGV {
        let mut bytes = [0; 8 * HANDLER_WORDS];
        user::read(VirtAddr(new), &mut bytes)?;
        handler = word(&bytes, 0);
        restorer = word(&bytes, 2);
        let handler = if handler <= DEFAULT_OR_IGNORE { 0 } else { handler };
        process::current().set_handler((handler, restorer));
    }
    Ok(0)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[8 * at..][..8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Every clock counts from boot.
pub fn clock_gettime(_clock: u64, at: u64) -> CallResult {
    let now = Core::now_ns();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(now / 1_000_000_000).to_le_bytes());
    bytes[8..].copy_from_slice(&(now % 1_000_000_000).to_le_bytes());
    user::write(VirtAddr(at), &bytes)?;
    Ok(0)
}

/// The nanoseconds of a `timespec`.
pub fn duration_ns(at: u64) -> Result<u64, Errno> {
    let mut bytes = [0; 16];
    user::read(VirtAddr(at), &mut bytes)?;
    let (seconds, ns) = (word(&bytes, 0), word(&bytes, 1));
    if ns >= 1_000_000_000 || seconds > i64::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    Ok(seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

/// There is no list of timers: a sleeping thread reads the clock whenever it is scheduled.
pub fn nanosleep(at: u64) -> CallResult {
    let end = Core::now_ns().saturating_add(duration_ns(at)?);
    while Core::now_ns() < end && !process::current().is_ending() {
        sched::yield_now();
    }
    Ok(0)
}
