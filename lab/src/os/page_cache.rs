//! Which pages of a file the page cache has.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr;

const PAGE: usize = 4096;
/// Bytes looked at in one step, so that a large file needs little memory.
const STEP: usize = 1 << 30;
const TMPFS: i64 = 0x0102_1994;

/// A file, and its pages in the page cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Its length, bytes.
    pub len_bytes: u64,
    /// Whether it lies on a tmpfs.
    pub is_in_memory: bool,
    /// The pages that the cache has, upwards.
    pub ranges: Vec<Range<u64>>,
}

/// The pages that the cache has of a regular file; `None` where the path leads to no regular file with that
/// device (major number, and below it the minor number in 20 bits) and inode number.
///
/// # Errors
/// What the kernel says.
pub fn resident(path: &Path, is: (u32, u64)) -> io::Result<Option<Resident>> {
    let is_it = |it: &std::fs::Metadata| {
        let device = libc::major(it.dev()) << 20 | libc::minor(it.dev());
        it.is_file() && (device, it.ino()) == is
    };
    // Nothing else is opened: that may last, or have effects.
    if !is_it(&std::fs::metadata(path)?) {
        return Ok(None);
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOATIME).open(path)?;
    let facts = file.metadata()?;
    if !is_it(&facts) {
        return Ok(None);
    }
    let len_bytes = facts.len();
    Ok(Some(Resident { len_bytes, is_in_memory: is_on_tmpfs(&file)?, ranges: ranges(&file, len_bytes)? }))
}

fn is_on_tmpfs(file: &File) -> io::Result<bool> {
    let mut system = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the kernel writes one `statfs` to memory for one.
    if unsafe { libc::fstatfs(file.as_raw_fd(), system.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the kernel has written all of it.
    Ok(unsafe { system.assume_init() }.f_type == TMPFS)
}

fn ranges(file: &File, len_bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut states = Vec::new();
    for start in (0..len_bytes).step_by(STEP) {
        let len = (len_bytes - start).min(STEP as u64) as usize;
        states.clear();
        states.resize(len.div_ceil(PAGE), 0);
        look(file, start, len, &mut states)?;
        for (at, _) in states.iter().enumerate().filter(|(_, state)| *state & 1 == 1) {
            let page = start / PAGE as u64 + at as u64;
            match ranges.last_mut() {
                Some(last) if last.end == page => last.end += 1,
                _ => ranges.push(page..page + 1),
            }
        }
    }
    Ok(ranges)
}

/// Writes, for each page of a part of a file, whether the cache has it to bit 0 of its state.
fn look(file: &File, start: u64, len: usize, states: &mut [u8]) -> io::Result<()> {
    assert_eq!(states.len(), len.div_ceil(PAGE));
    // SAFETY: a new mapping at a place of the kernel's choice; no memory of this process changes.
    let at = unsafe {
        libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), start as i64)
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is that of the mapping just made, and the kernel writes one byte for each page of it,
    // as many as `states` has.
    let looked = unsafe { libc::mincore(at, len, states.as_mut_ptr()) };
    let result = if looked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the mapping is this function's own, and nothing refers to it.
    unsafe { libc::munmap(at, len) };
    result
}

#[cfg(test)]
#[path = "tests/page_cache.rs"]
mod tests;
