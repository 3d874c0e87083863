//! Calls about memory: untrusted words go straight to the library's `space::linux`.

use super::{Answer, Arguments, EBADF, EFAULT, EINVAL, ENOMEM};
use crate::arch::thread::Space;
use crate::arch::{percpu, user};
use interleaf::space::linux;
use interleaf::units::{PAGE_SIZE, VirtAddr};

const MAP_ANONYMOUS: u32 = 0x20;
/// Pages that mincore tells at a time.
const TOLD_AT_ONCE: usize = 256;

/// The space of the calling thread; every thread of a program has one.
fn space() -> &'static Space {
    percpu::thread().space().expect("a program's thread has a space")
}

pub fn mmap(Arguments([addr, len, prot, flags, ..]): Arguments) -> Answer {
    if flags as u32 & MAP_ANONYMOUS == 0 {
        return Err(EBADF);
    }
    Ok(linux::mmap(space(), addr, len, prot as u32, flags as u32)?.0)
}

pub fn munmap(addr: u64, len: u64) -> Answer {
    Ok(linux::munmap(space(), addr, len).map(|()| 0)?)
}

pub fn mprotect(addr: u64, len: u64, prot: u64) -> Answer {
    Ok(linux::mprotect(space(), addr, len, prot as u32).map(|()| 0)?)
}

pub fn madvise(addr: u64, len: u64, advice: u64) -> Answer {
    Ok(linux::madvise(space(), addr, len, advice as i32).map(|()| 0)?)
}

pub fn brk(end: u64) -> Answer {
    Ok(space().brk(VirtAddr(end)).0)
}

/// The library tells under its lock, so what it tells is collected, and copied to the program afterwards.
pub fn mincore(addr: u64, len: u64, to: u64) -> Answer {
    if !VirtAddr(addr).is_page_aligned() {
        return Err(EINVAL);
    }
    let end = addr.checked_add(len).filter(|&end| end <= user::USER_END).ok_or(ENOMEM)?;
    let pages = len.div_ceil(PAGE_SIZE as u64);
    to.checked_add(pages).filter(|&end| end <= user::USER_END).ok_or(EFAULT)?;
    let (mut at, mut to) = (addr, to);
    while at < end {
        let bytes = (end - at).min((TOLD_AT_ONCE * PAGE_SIZE) as u64);
        let (mut told, mut count) = ([0; TOLD_AT_ONCE], 0);
        space().mincore(VirtAddr(at), bytes, |_, is_resident| {
            told[count] = u8::from(is_resident);
            count += 1;
        })?;
        user::write(VirtAddr(to), &told[..count])?;
        at += bytes;
        to += count as u64;
    }
    Ok(0)
}
