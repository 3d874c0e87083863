//! Calls about everything else.

use super::{CallResult, words};
use crate::arch::thread::Thread;
use crate::arch::{Core, console, user};
use crate::memory;
use interleaf::machine::Cpu;
use interleaf::units::{PAGE_SIZE, VirtAddr};
use interleaf_linux_abi::Errno;

/// Bytes printed at a time.
const CHUNK: usize = 256;

/// Most bytes of one call, as Linux has it.
const MOST_BYTES: u64 = 0x7fff_f000;

/// Everything is printed on the program's console.
pub fn write(file: u64, at: u64, len: u64) -> CallResult {
    if !matches!(file, 1 | 2) {
        return Err(Errno::EBADF);
    }
    let (mut done, len) = (0, len.min(MOST_BYTES));
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

/// What `writev` is asked for, piece by piece.
pub fn writev(file: u64, at: u64, pieces: u64) -> CallResult {
    /// Most pieces.
    const MOST: u64 = 1024;
    if !matches!(file, 1 | 2) {
        return Err(Errno::EBADF);
    }
    if pieces > MOST {
        return Err(Errno::EINVAL);
    }
    let mut done = 0;
    for piece in 0..pieces {
        let [from, len] = words::read(at.wrapping_add(16 * piece))?;
        let wrote = match write(file, from, len) {
            Err(error) if done == 0 => return Err(error),
            wrote => wrote.unwrap_or(0),
        };
        done += wrote;
        if wrote < len {
            break;
        }
    }
    Ok(done)
}

/// What Linux tells of the machine in a `struct sysinfo`. There is no average of the load, no swap and no
/// memory beyond the direct map: those are 0.
pub fn sysinfo(at: u64) -> CallResult {
    let stats = memory::vm().memory().stats();
    let bytes = |frames: u64| frames * PAGE_SIZE as u64;
    let seconds = Core::now_ns() / 1_000_000_000;
    let threads = Thread::all().iter().filter(|thread| thread.is_of_a_process()).count() as u64;
    let (total, free) = (bytes(stats.managed), bytes(stats.free() + stats.cached));
    // Uptime, three loads; RAM, free, shared, buffers; swap, free; threads; high memory, free; bytes of a
    // unit.
    words::write(at, [seconds, 0, 0, 0, total, free, 0, 0, 0, 0, threads, 0, 0, 1])?;
    Ok(0)
}
