//! Calls about memory: untrusted words go straight to `interleaf_linux_abi`.

use super::{Arguments, CallResult};
use crate::arch::spaces::Space;
use crate::arch::{percpu, user};
use crate::task::process;
use interleaf::units::{PAGE_SIZE, PageSize, VirtAddr};
use interleaf_linux_abi as linux;

/// Pages that mincore reports at a time.
const TOLD_AT_ONCE: usize = 256;

/// Calls `f` with the space of the calling thread; every thread of a program has one.
#[inline(always)]
fn with_space<R>(f: impl FnOnce(&Space) -> R) -> R {
    percpu::thread().with_space(|space| f(space.expect("a program's thread has a space")))
}

pub fn mmap(Arguments(words): Arguments) -> CallResult {
    Ok(with_space(|space| linux::mmap(space, words))?.0)
}

pub fn munmap(addr: u64, len: u64) -> CallResult {
    with_space(|space| linux::munmap(space, addr, len)).map(|()| 0)
}

pub fn mremap(words: [u64; 5]) -> CallResult {
    Ok(with_space(|space| linux::mremap(space, words))?.0)
}

pub fn mprotect(addr: u64, len: u64, prot: u64) -> CallResult {
    with_space(|space| linux::mprotect(space, addr, len, prot)).map(|()| 0)
}

pub fn madvise(addr: u64, len: u64, advice: u64) -> CallResult {
    use linux::advice::{DONTNEED, DONTNEED_LOCKED, FREE};
    if matches!(advice as i32, DONTNEED | DONTNEED_LOCKED | FREE) && len >= PageSize::Huge.bytes() {
        // What goes was resident until now.
        process::current().count_resident();
    }
    with_space(|space| linux::madvise(space, addr, len, advice as i32)).map(|()| 0)
}

pub fn mbind(Arguments([addr, len, mode, mask, max_node, flags]): Arguments) -> CallResult {
    // The program's mask is read before the space is: a fault on it may need the space.
    let word_at = |at| {
        let mut word = [0; 8];
        user::read(VirtAddr(at), &mut word)?;
        Ok(u64::from_le_bytes(word))
    };
    let nodes = || linux::read_nodes(mask, max_node, word_at);
    with_space(|space| linux::mbind(space, addr, len, mode as u32, nodes, flags as u32)).map(|()| 0)
}

/// Whether faults of the process may get huge pages.
pub fn prctl(Arguments([option, first, second, third, fourth, _]): Arguments) -> CallResult {
    with_space(|space| linux::prctl(space, option as u32, [first, second, third, fourth]))
}

pub fn brk(end: u64) -> CallResult {
    Ok(with_space(|space| linux::brk(space, end)))
}

/// The library reports under its lock, so the report is collected, and copied to the program afterwards. As
/// in Linux the bytes of the pages before a hole are written, and the call fails then.
pub fn mincore(addr: u64, len: u64, to: u64) -> CallResult {
    linux::check_mincore(addr, len, to, user::USER_END)?;
    let end = addr + len;
    let (mut at, mut to) = (addr, to);
    while at < end {
        let bytes = (end - at).min((TOLD_AT_ONCE * PAGE_SIZE) as u64);
        let (mut told, mut count) = ([0; TOLD_AT_ONCE], 0);
        let mut tell = |is_resident| {
            told[count] = u8::from(is_resident);
            count += 1;
        };
        let whole =
            with_space(|space| space.mincore(VirtAddr(at), bytes, |_, is_resident| tell(is_resident)));
        user::write(VirtAddr(to), &told[..count])?;
        whole?;
        at += bytes;
        to += count as u64;
    }
    Ok(0)
}
