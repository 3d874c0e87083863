//! Host memory by mmap(2): reserved in one piece, opened in parts.

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut, with_exposed_provenance_mut};
use std::sync::Arc;

/// A reserved piece of the host's address space. What is not [`open`](Reservation::open)ed faults when
/// touched. Clones are the same piece, which the last of them gives back.
#[derive(Clone, Debug)]
pub struct Reservation {
    start: NonNull<u8>,
    len_bytes: usize,
    _mapping: Arc<Mapping>,
}

/// The address that Linux takes lower hints for: where it puts a mapping whose hint is one page. `None` where
/// it says nothing of hints, as when that address is taken.
pub fn lowest_hint() -> Option<u64> {
    const PAGE: usize = 4096;
    const BELOW: u64 = 1 << 32;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let hint = with_exposed_provenance_mut(PAGE);
    // SAFETY: a new mapping of which the address is a hint replaces none, and touches no memory in use.
    let at = unsafe { libc::mmap(hint, PAGE, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping was made just now, and nothing refers to it.
    unsafe { libc::munmap(at, PAGE) };
    Some(at.addr() as u64).filter(|&at| at < BELOW)
}

/// Unmaps a reservation when it is dropped.
#[derive(Debug)]
struct Mapping {
    /// An address whose provenance is exposed.
    start: usize,
    len_bytes: usize,
}

// SAFETY: the value is an address, a length, and a count of clones, which is atomic; threads order their own
// accesses to the memory.
unsafe impl Send for Reservation {}
// SAFETY: as above; no method changes the value.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len_bytes` bytes, without memory behind them.
    ///
    /// # Errors
    /// What mmap says.
    pub fn new(len_bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let start = unsafe { libc::mmap(null_mut(), len_bytes, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::<u8>::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        let mapping = Mapping { start: start.as_ptr().expose_provenance(), len_bytes };
        Ok(Self { start, len_bytes, _mapping: Arc::new(mapping) })
    }

    /// Makes a part readable and writable; it reads as zeroes until written.
    ///
    /// # Errors
    /// What mprotect says, or that the part lies outside.
    pub fn open(&self, part: Range<usize>) -> io::Result<()> {
        self.advise_with(part.clone(), |at, len| {
            // SAFETY: the part lies in this reservation; adding rights invalidates no reference.
            unsafe { libc::mprotect(at, len, libc::PROT_READ | libc::PROT_WRITE) }
        })?;
        // A kernel reaches its frames through the largest pages that there are. A host that has none is
        // slower, not wrong.
        let _best_effort = self.advise_with(part, |at, len| {
            // SAFETY: the part lies in this reservation; the advice changes no byte of it.
            unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) }
        });
        Ok(())
    }

    /// Has the host put base pages behind an open part from now on: it takes as much memory as is touched.
    ///
    /// # Errors
    /// What madvise says, or that the part lies outside.
    pub fn keep_to_base_pages(&self, part: Range<usize>) -> io::Result<()> {
        self.advise_with(part, |at, len| {
            // SAFETY: the part lies in this reservation; the advice changes no byte of it.
            unsafe { libc::madvise(at, len, libc::MADV_NOHUGEPAGE) }
        })
    }

    /// Has the host put zeroed memory behind an open part now, so that no host fault comes later.
    ///
    /// # Errors
    /// What madvise says, or that the part lies outside.
    pub fn populate(&self, part: Range<usize>) -> io::Result<()> {
        self.advise_with(part, |at, len| {
            // SAFETY: the part lies in this reservation; populating changes no byte of it.
            unsafe { libc::madvise(at, len, libc::MADV_POPULATE_WRITE) }
        })
    }

    /// Moves what is behind a part of another reservation to `offset` here: the same memory, with its bytes,
    /// without a copy. What was here is gone, and the other part reads as zeroes until written again.
    ///
    /// # Errors
    /// What mremap says, or that a part lies outside, or is not of whole pages.
    ///
    /// # Safety
    /// Both parts are open. Nothing borrows from either, or uses its memory meanwhile.
    pub unsafe fn move_here(&self, offset: usize, from: &Self, part: Range<usize>) -> io::Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        let to = offset..offset.saturating_add(part.len());
        self.advise_with(to, |to, len| {
            let moved = from.advise_with(part, |at, _| {
                // SAFETY: both parts lie in reservations, whose mappings stay: the one moved from is kept,
                // empty. Nothing borrows from them, as the caller promises.
                let moved = unsafe { libc::mremap(at, len, len, flags, to) };
                if moved == to { 0 } else { -1 }
            });
            if moved.is_ok() { 0 } else { -1 }
        })
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes reserved.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn advise_with(
        &self,
        part: Range<usize>,
        call: impl FnOnce(*mut libc::c_void, usize) -> i32,
    ) -> io::Result<()> {
        if part.start > part.end || part.end > self.len_bytes {
            return Err(io::Error::other("outside of the reservation"));
        }
        // SAFETY: checked above to lie within the mapping, or one past its end for an empty part.
        let at = unsafe { self.start.add(part.start) };
        if call(at.as_ptr().cast(), part.len()) == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours. Only pointers into it were given out, by a borrow of a reservation;
        // each block that dereferences one says why that, or a clone of it, still lives.
        unsafe { libc::munmap(with_exposed_provenance_mut(self.start), self.len_bytes) };
    }
}

/// Asks the host for huge pages behind memory that is about to be touched first, as behind an arena: both
/// sides of a measurement get the same.
pub fn prefer_huge_pages<T>(memory: &[std::mem::MaybeUninit<T>]) {
    const PAGE: usize = 4096;
    let start = memory.as_ptr().addr().next_multiple_of(PAGE);
    let end = (memory.as_ptr().addr() + size_of_val(memory)) / PAGE * PAGE;
    if start < end {
        let at = memory.as_ptr().with_addr(start).cast_mut().cast();
        // SAFETY: whole pages of memory that the caller passes by reference; the advice changes no byte of
        // them.
        let _best_effort = unsafe { libc::madvise(at, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Bytes that the host could give now without reclaiming memory in use. `None` where it does not say.
pub fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
#[path = "tests/memory.rs"]
mod tests;
